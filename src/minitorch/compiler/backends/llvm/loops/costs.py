"""What deciding about loops goes by. Enters: nothing. Leaves: sizes and estimates, each with a name.

Estimates of time count instructions on a vector, per element of the loops.
"""

from __future__ import annotations

UNIT_WORK = 16384  # a unit of work is about so many elements times instructions / WORK_PER_ELEMENT
WORK_PER_ELEMENT = 8  # instructions that take the time of an element's way through memory
TILED_BYTES = 1 << 17  # arrays larger than this are read in squares if they are read against the grain
TILE_SIZES = (
    16,
    8,
    32,
    12,
    10,
    14,
    7,
    4,
)  # of the squares, the best first: 16 floats are a line of the cache
EXPENSIVE = 10.0  # what costs more than so many instructions is kept for the next pass, not computed again

# --- which loop vectors lie along ----------------------------------------------------------------------------------

LOAD, LOAD_REVERSED, LOAD_EACH_LANE = 1.0, 2.0, 1.5
STORE, STORE_EACH_LANE = 1.5, 2.5
# What each row costs besides its elements: summing across lanes, finding a place among them, waiting for one pass.
ROW_FOLD, ROW_ARG, ROW_PASS = 14.0, 20.0, 25.0
# Down the columns each turn is far from the last one; a sum in memory for each of them is read and written.
COLUMN_TURN, COLUMN_FOLD = 0.02, 14.0

# --- how many vectors a turn handles -------------------------------------------------------------------------------

# Work per turn, and the most vectors: much work needs no more of it to keep the processor busy, and more registers.
UNROLL = ((10.0, 4), (30.0, 2))

# --- seconds -------------------------------------------------------------------------------------------------------

INSTRUCTION_SECONDS = 0.3e-9
BYTES_PER_SECOND = 40e9  # through memory, on one thread
ELEMENT_BYTES = 4  # of most arrays

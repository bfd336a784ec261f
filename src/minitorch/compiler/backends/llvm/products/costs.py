"""What planning a product goes by. Enters: nothing. Leaves: sizes of caches, and estimates of time, each with a name.

Bytes were found by trying on processors with 32 to 48 KB of first-level and 0.5 to 2 MB of second-level cache; they
are right within a factor of two or so. Cycles are of one core, where a vector multiply-add counts one.
"""

from __future__ import annotations

LINE_BYTES = 64  # bytes that come from memory together

# --- panels of B -----------------------------------------------------------------------------------------------

# A panel is used by tile after tile of rows: it should stay in the second-level cache, beside the rows.
PANEL_BYTES = 128 << 10
MOST_PANELS = (
    3  # k is cut into blocks where a panel would be larger than this many; cutting costs stores and loads
)
MANY_TILES = 4  # so many tiles of rows use a panel before cutting k pays

# Copying a panel that is contiguous already pays when many rows use it, and only where its lines are far apart in
# memory: far lines fall into the same few places of the cache and drive each other out.
PACK_ROWS = 48
PACK_DEPTH = 192
FAR_BYTES = 2048
FAR_MULTIPLE = 1024  # of this many bytes: lines that far apart meet in the same places
FAR_WIDTHS = 8  # lines further apart than this many panel widths are far, whatever their distance
# Where not even the nearest cache has places for the lines of a panel, fewer rows pay for a copy.
PACK_FEW_ROWS = 24
NEAR_WIDTHS = 2  # lines that are nearer to each other than this many panel widths share places in any case
NEAREST_BYTES, NEAREST_WAYS = 32 << 10, 8  # of the first-level cache; in each way a line has one place
MOST_RUNS = 4  # vectors of more contiguous pieces than this are put together element by element

# --- rows of A -------------------------------------------------------------------------------------------------

# Lines of A that are far apart, and of which a tile uses a few elements only, are fetched again for each tile that
# shares them, and for each panel. That goes well as long as they stay in the nearest cache for a whole panel.
LARGE_BYTES = 3 << 20
VERY_LARGE_BYTES = 8 << 20
SAME_LINES_BYTES = 16 << 10  # steps of a multiple of this meet few lines even of a large cache
PACK_A_PANELS = 4  # fewer panels than this do not pay for a copy of A
PACK_A_ROWS, PACK_A_BYTES = (
    192,
    4 << 20,
)  # copied at a time: so many rows, or as many as these bytes have room for
PACK_A_DEPTH = 8192
NEAR_BYTES = 512 << 10  # a B up to this size stays near while all rows pass

# --- units of work ---------------------------------------------------------------------------------------------

UNIT_FLOPS = 500_000  # some 10 µs: less is not worth handing to another thread
MOST_UNITS = 16
PARTIAL_ROWS = 1024  # the most rows whose unfinished sums wait in scratch memory
REPACKING_ROWS = 96  # fewer rows than this do not pay for packing a panel once more

# --- tiles -----------------------------------------------------------------------------------------------------

OTHER_REGISTERS = 2  # beside sums and a line of B: an element of A, and one to spare
MOST_ROWS = 12
MOST_TABLE_ROWS = 8  # rows whose addresses come from a table need a register each for them, and there are few
LEAST_SUMS = 10  # at a time: a multiply-add takes 4 or 5 cycles, and two can begin in each
MOST_VECTORS = 8  # across a tile of few rows
MOST_SWAPPED_VECTORS = 4
DOT_TILE = 4  # rows and columns of a tile of dot products
DOT_SUMS = 8  # at a time

# --- cycles ----------------------------------------------------------------------------------------------------

# What a multiply-add costs: half-filled registers are faster on some machines, never slower.
MULTIPLY_FIXED, MULTIPLY_BY_WIDTH = 0.4, 0.6
LOAD_A, LOAD_B = 0.5, 1.0  # per element of A (loaded and spread at once) and per vector of B
LATENCY = 4.0  # of a multiply-add: one step of k takes at least so long
LOADS_BESIDE = 0.1  # how much of the loads is not hidden behind the multiplications
TILE_START, TILE_STORE = 6.0, 2.0  # of a tile, and for each of its vectors
TURN_ROUND = 4.0  # per lane and vector of a swapped tile
DOT_STEP = 1.0  # of the loop along k
DOT_ROW, DOT_SUM_ACROSS = 1.0, 1.5  # at the end: for each row, and for each of its sums
# Packing, per vector of B; `runs` costs one for each piece, and 1.5.
PACK_COPY, PACK_RUNS, PACK_TRANSPOSE, PACK_SCALAR = 2.0, 1.5, 5.0, 2.0

# Less text compiles faster: worth a little time of the result.
UNEVEN_ROWS = 1.02  # tiles of two heights
EACH_KERNEL = 0.01  # for each inner loop
OTHER_FORMS = 0.9  # forms other than the plain one must be better by more than a little

# --- writing ---------------------------------------------------------------------------------------------------

# Unroll k until a round has about this many multiply-adds; unroll all of it up to a few more.
ROUND = 16
WHOLE = 96
# Lines of memory that lie as far apart as this follow no pattern that a processor sees by itself: it is told this many
# steps before they are needed.
STRIDE_BYTES = 256
AHEAD = 24
# An epilogue of more lines than this is written once for a row of vectors, in a loop over the tile's rows.
LONG_EPILOGUE = 12

FETCHED_BYTES = 128 << 10  # smaller results are near, whatever happened since they were last touched

# --- seconds ---------------------------------------------------------------------------------------------------

CLOCK_HZ = 3.5e9  # to tell seconds from cycles, roughly
EPILOGUE_SECONDS = 0.03e-9  # per instruction and element of what follows a product

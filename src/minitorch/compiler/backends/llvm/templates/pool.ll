; The thread pool: what the caller of a step does, and what its workers do. `threads.py` says what lies where in the
; pool's memory, whose first word is its state: how many workers are inside, whether it is open, the number of the job.
$pause_declaration

; Wait an instant.
define internal void @pause() $attributes {
entry:
  $pause
  ret void
}

; Wait some instants: to find out how long one is.
define void @pauses(i64 %count) $attributes {
entry:
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  call void @pause()
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %again, label %done
done:
  ret void
}

; A lock on an i32: 0 free, 1 held, 2 held and somebody waits.
define void @mutex_lock(ptr %word) $attributes {
entry:
  %first = cmpxchg ptr %word, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %first, 1
  br i1 %free, label %done, label %contended
contended:
  %old = atomicrmw xchg ptr %word, i32 2 acquire
  %mine = icmp eq i32 %old, 0
  br i1 %mine, label %done, label %wait
wait:
  call void @sleep_while(ptr %word, i32 2)
  br label %contended
done:
  ret void
}

define void @mutex_unlock(ptr %word) $attributes {
entry:
  %old = atomicrmw xchg ptr %word, i32 0 release
  %waited_for = icmp eq i32 %old, 2
  br i1 %waited_for, label %wake, label %done
wake:
  call void @wake(ptr %word)
  br label %done
done:
  ret void
}

; Take units, first of one's own range and then of the others', until none are left or a kernel fails.
define internal void @pool_take(ptr %pool, i64 %thread) $attributes {
entry:
  %function_at = getelementptr i8, ptr %pool, i64 $job_function
  %function = load ptr, ptr %function_at, align 8
  %table_at = getelementptr i8, ptr %pool, i64 $job_table
  %table = load ptr, ptr %table_at, align 8
  %slots_at = getelementptr i8, ptr %pool, i64 $job_slots
  %slots = load ptr, ptr %slots_at, align 8
  %grain_at = getelementptr i8, ptr %pool, i64 $job_grain
  %grain = load i64, ptr %grain_at, align 8
  %threads_at = getelementptr i8, ptr %pool, i64 $job_threads
  %threads = load i64, ptr %threads_at, align 8
  %error_at = getelementptr i8, ptr %pool, i64 $error
  br label %each_range
each_range:
  %offset = phi i64 [ 0, %entry ], [ %next_offset, %next_range ]
  %sum = add i64 %thread, %offset
  %owner = urem i64 %sum, %threads
  %range_bytes = mul i64 %owner, $range_size
  %range_start = add i64 %range_bytes, $ranges
  %range = getelementptr i8, ptr %pool, i64 %range_start
  %end_at = getelementptr i8, ptr %range, i64 8
  %end = load i64, ptr %end_at, align 8
  br label %look
look:
  ; Looking first is cheaper than taking in vain: it does not claim the cache line.
  %seen = load atomic i64, ptr %range monotonic, align 8
  %left = icmp ult i64 %seen, %end
  br i1 %left, label %take, label %next_range
take:
  %unit = atomicrmw add ptr %range, i64 %grain monotonic
  %got = icmp ult i64 %unit, %end
  br i1 %got, label %work, label %next_range
work:
  %after = add i64 %unit, %grain
  %over = icmp ugt i64 %after, %end
  %stop = select i1 %over, i64 %end, i64 %after
  %code = call i64 %function(ptr %table, ptr %slots, i64 %unit, i64 %stop, i64 %thread)
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %fail, label %check
fail:
  %first_error = cmpxchg ptr %error_at, i64 0, i64 %code monotonic monotonic
  ret void
check:
  %known = load atomic i64, ptr %error_at monotonic, align 8
  %stopped = icmp ne i64 %known, 0
  br i1 %stopped, label %done, label %look
next_range:
  %next_offset = add i64 %offset, 1
  %more = icmp ult i64 %next_offset, %threads
  br i1 %more, label %each_range, label %done
done:
  ret void
}

; What one worker does all its life.
define i64 @pool_worker(ptr %pool, i64 %thread) $attributes {
entry:
  %sleepers_at = getelementptr i8, ptr %pool, i64 $sleepers
  %spins_at = getelementptr i8, ptr %pool, i64 $spins
  %spins = load i64, ptr %spins_at, align 8
  br label %idle
idle:
  %last = phi i32 [ 0, %entry ], [ %last, %woken ], [ %done_job, %leave ]
  br label %watch
watch:
  %looked = phi i64 [ 0, %idle ], [ %looked_more, %wait ], [ %looked_more, %give_way ], [ %looked, %enter ]
  %state = load atomic i32, ptr %pool acquire, align 4
  %stop_bit = and i32 %state, $stop
  %stop = icmp ne i32 %stop_bit, 0
  br i1 %stop, label %home, label %consider
consider:
  %open_bit = and i32 %state, $open
  %open = icmp ne i32 %open_bit, 0
  %job = and i32 %state, $job_mask
  %new = icmp ne i32 %job, %last
  %work = and i1 %open, %new
  br i1 %work, label %enter, label %wait
wait:
  call void @pause()
  %looked_more = add i64 %looked, 1
  %round = and i64 %looked_more, $looks_mask
  %round_done = icmp eq i64 %round, 0
  br i1 %round_done, label %rest, label %watch
rest:
  %tired = icmp uge i64 %looked_more, %spins
  br i1 %tired, label %sleep, label %give_way
give_way:
  ; On a busy machine this core may be the one the caller waits for.
  call void @yield()
  br label %watch
sleep:
  ; Count oneself asleep, and only then look a last time: a caller opens first and counts then, so that
  ; one of the two sees the other.
  %asleep = atomicrmw add ptr %sleepers_at, i32 1 seq_cst
  %again = load atomic i32, ptr %pool seq_cst, align 4
  %same = icmp eq i32 %again, %state
  br i1 %same, label %really, label %woken
really:
  call void @sleep_while(ptr %pool, i32 %state)
  br label %woken
woken:
  %awake = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst
  br label %idle
enter:
  %inside = add i32 %state, 1
  %entry_try = cmpxchg ptr %pool, i32 %state, i32 %inside acquire monotonic
  %entered = extractvalue { i32, i1 } %entry_try, 1
  br i1 %entered, label %in, label %watch
in:
  %threads_at = getelementptr i8, ptr %pool, i64 $job_threads
  %threads = load i64, ptr %threads_at, align 8
  %invited = icmp ult i64 %thread, %threads
  br i1 %invited, label %join, label %leave
join:
  call void @pool_take(ptr %pool, i64 %thread)
  br label %leave
leave:
  %done_job = phi i32 [ %job, %in ], [ %job, %join ]
  %left = atomicrmw sub ptr %pool, i32 1 release
  br label %idle
home:
  ret i64 0
}

; Do all units of one step; return 0 or the first nonzero code. most: how many numbers a kernel's `thread` may take.
define i64 @pool_step(ptr %pool, ptr %function, ptr %table, ptr %slots, i64 %units, i64 %grain, i64 %most) $attributes {
entry:
  %threads_here_at = getelementptr i8, ptr %pool, i64 $threads
  %threads_here = load atomic i64, ptr %threads_here_at monotonic, align 8
  %fewer = icmp ult i64 %most, %threads_here
  %threads = select i1 %fewer, i64 %most, i64 %threads_here
  %several = icmp ugt i64 %threads, 1
  br i1 %several, label %claim, label %alone
claim:
  %owner_at = getelementptr i8, ptr %pool, i64 $owner
  %claim_try = cmpxchg ptr %owner_at, i32 0, i32 1 acquire monotonic
  %claimed = extractvalue { i32, i1 } %claim_try, 1
  br i1 %claimed, label %count_again, label %alone
count_again:
  ; The pool may have been stopped since.
  %threads_now = load atomic i64, ptr %threads_here_at monotonic, align 8
  %still = icmp eq i64 %threads_now, %threads_here
  br i1 %still, label %deal, label %let_go
let_go:
  store atomic i32 0, ptr %owner_at release, align 4
  br label %alone
deal:
  %job_function_at = getelementptr i8, ptr %pool, i64 $job_function
  store ptr %function, ptr %job_function_at, align 8
  %job_table_at = getelementptr i8, ptr %pool, i64 $job_table
  store ptr %table, ptr %job_table_at, align 8
  %job_slots_at = getelementptr i8, ptr %pool, i64 $job_slots
  store ptr %slots, ptr %job_slots_at, align 8
  %job_grain_at = getelementptr i8, ptr %pool, i64 $job_grain
  store i64 %grain, ptr %job_grain_at, align 8
  %job_threads_at = getelementptr i8, ptr %pool, i64 $job_threads
  store i64 %threads, ptr %job_threads_at, align 8
  %error_at = getelementptr i8, ptr %pool, i64 $error
  store i64 0, ptr %error_at, align 8
  br label %each_range
each_range:
  %number = phi i64 [ 0, %deal ], [ %next, %each_range ]
  %start = phi i64 [ 0, %deal ], [ %stop, %each_range ]
  %next = add i64 %number, 1
  %share = mul i64 %next, %units
  %stop = udiv i64 %share, %threads
  %range_bytes = mul i64 %number, $range_size
  %range_start = add i64 %range_bytes, $ranges
  %range = getelementptr i8, ptr %pool, i64 %range_start
  %end_at = getelementptr i8, ptr %range, i64 8
  store atomic i64 %start, ptr %range monotonic, align 8
  store i64 %stop, ptr %end_at, align 8
  %more = icmp ult i64 %next, %threads
  br i1 %more, label %each_range, label %open
open:
  %sleepers_at = getelementptr i8, ptr %pool, i64 $sleepers
  %before = load atomic i32, ptr %pool monotonic, align 4
  %number_before = and i32 %before, $job_mask
  %number_now = add i32 %number_before, $next_job
  %opened = or i32 %number_now, $open
  %replaced = atomicrmw xchg ptr %pool, i32 %opened seq_cst
  %sleeping = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %some_sleep = icmp ne i32 %sleeping, 0
  br i1 %some_sleep, label %wake, label %work
wake:
  call void @wake(ptr %pool)
  br label %work
work:
  call void @pool_take(ptr %pool, i64 0)
  %closing = atomicrmw and ptr %pool, i32 $not_open acq_rel
  %spins_at = getelementptr i8, ptr %pool, i64 $spins
  %spins = load i64, ptr %spins_at, align 8
  br label %join
join:
  %looked = phi i64 [ 0, %work ], [ %looked_more, %stay ]
  %looked_more = add i64 %looked, 1
  %state = load atomic i32, ptr %pool acquire, align 4
  %inside = and i32 %state, $inside
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %finish, label %wait
wait:
  %long = icmp ugt i64 %looked_more, %spins
  br i1 %long, label %give_way, label %breathe
breathe:
  call void @pause()
  br label %stay
give_way:
  ; Whoever is still inside may be waiting for this very core.
  call void @yield()
  br label %stay
stay:
  br label %join
finish:
  %code = load i64, ptr %error_at, align 8
  store atomic i32 0, ptr %owner_at release, align 4
  ret i64 %code
alone:
  %code_alone = call i64 %function(ptr %table, ptr %slots, i64 0, i64 %units, i64 0)
  ret i64 %code_alone
}

; Wait until no step uses the pool, then send all workers home.
define void @pool_stop(ptr %pool) $attributes {
entry:
  %owner_at = getelementptr i8, ptr %pool, i64 $owner
  %threads_at = getelementptr i8, ptr %pool, i64 $threads
  br label %claim
claim:
  %claim_try = cmpxchg ptr %owner_at, i32 0, i32 1 acquire monotonic
  %claimed = extractvalue { i32, i1 } %claim_try, 1
  br i1 %claimed, label %stop, label %wait
wait:
  call void @yield()
  br label %claim
stop:
  store atomic i64 0, ptr %threads_at monotonic, align 8
  %before = atomicrmw or ptr %pool, i32 $stop seq_cst
  call void @wake(ptr %pool)
  store atomic i32 0, ptr %owner_at release, align 4
  ret void
}

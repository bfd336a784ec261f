; What runs a program, and the builtin function through which Python calls it. `driver.py` says what lies where in a
; program's memory. Kernels are i64 (ptr table, ptr slots, i64 start, i64 stop, i64 thread); nonzero ends the program.
@wrong_number = private constant $wrong_number
@wrong_type = private constant $wrong_type
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; Walk the steps; return 0, or the first nonzero code, after which nothing runs.
define i64 @run(ptr %program) $attributes {
entry:
  %table_at = getelementptr i8, ptr %program, i64 $table
  %table = load ptr, ptr %table_at, align 8
  %steps_at = getelementptr i8, ptr %program, i64 $steps
  %steps = load ptr, ptr %steps_at, align 8
  %count_at = getelementptr i8, ptr %program, i64 $count
  %count = load i64, ptr %count_at, align 8
  %times_at = getelementptr i8, ptr %program, i64 $times
  %times = load ptr, ptr %times_at, align 8
  %pool_at = getelementptr i8, ptr %program, i64 $pool
  %pool = load ptr, ptr %pool_at, align 8
  %most_at = getelementptr i8, ptr %program, i64 $most_threads
  %most = load i64, ptr %most_at, align 8
  %timed = icmp ne ptr %times, null
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i_next, %step_done ]
  %step = phi ptr [ %steps, %entry ], [ %step_next, %step_done ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %read, label %finished
read:
  %slots_at = getelementptr i64, ptr %step, i64 1
  %units_at = getelementptr i64, ptr %step, i64 2
  %grain_at = getelementptr i64, ptr %step, i64 3
  %parallel_at = getelementptr i64, ptr %step, i64 4
  %function = load ptr, ptr %step, align 8
  %slots = load ptr, ptr %slots_at, align 8
  %units = load i64, ptr %units_at, align 8
  %parallel = load i64, ptr %parallel_at, align 8
  br i1 %timed, label %look, label %choose
look:
  %clock_before = call i64 @clock()
  br label %choose
choose:
  %before = phi i64 [ 0, %read ], [ %clock_before, %look ]
  %serial = icmp eq i64 %parallel, 0
  br i1 %serial, label %alone, label %together
alone:
  %code_alone = call i64 %function(ptr %table, ptr %slots, i64 0, i64 %units, i64 0)
  br label %done
together:
  %grain = load i64, ptr %grain_at, align 8
  %code_together = call i64 @pool_step(ptr %pool, ptr %function, ptr %table, ptr %slots, i64 %units, i64 %grain,
                                       i64 %most)
  br label %done
done:
  %code = phi i64 [ %code_alone, %alone ], [ %code_together, %together ]
  br i1 %timed, label %look_again, label %check
look_again:
  %after = call i64 @clock()
  %elapsed = sub i64 %after, %before
  %time_at = getelementptr i64, ptr %times, i64 %i
  %time = load i64, ptr %time_at, align 8
  %time_new = add i64 %time, %elapsed
  store i64 %time_new, ptr %time_at, align 8
  br label %check
check:
  %bad = icmp ne i64 %code, 0
  br i1 %bad, label %fail, label %step_done
step_done:
  %i_next = add i64 %i, 1
  %step_next = getelementptr i8, ptr %step, i64 $step_size
  br label %next
fail:
  %failed_at = getelementptr i8, ptr %program, i64 $failed
  store i64 %i, ptr %failed_at, align 8
  br label %finished
finished:
  %result = phi i64 [ 0, %next ], [ %code, %fail ]
  br i1 %timed, label %count_run, label %leave
count_run:
  %runs_at = getelementptr i8, ptr %program, i64 $runs
  %runs = load i64, ptr %runs_at, align 8
  %runs_new = add i64 %runs, 1
  store i64 %runs_new, ptr %runs_at, align 8
  br label %leave
leave:
  ret i64 %result
}

; A kernel that does nothing, for steps without units.
define i64 @nothing(ptr %table, ptr %slots, i64 %start, i64 %stop, i64 %thread) $attributes {
  ret i64 0
}

; Write the arguments' addresses into the table; false, and a Python exception, if one is of a wrong type.
define internal i1 @fill(ptr %program, ptr %arguments, i64 %given) $attributes {
entry:
  %bases_at = getelementptr i8, ptr %program, i64 $bases
  %bases = load ptr, ptr %bases_at, align 8
  %scalars_at = getelementptr i8, ptr %program, i64 $scalars
  %scalars = load ptr, ptr %scalars_at, align 8
  %float_type_at = getelementptr i8, ptr %program, i64 $float_type
  %float_type = load ptr, ptr %float_type_at, align 8
  %array_type_at = getelementptr i8, ptr %program, i64 $array_type
  %array_type = load ptr, ptr %array_type_at, align 8
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i_next, %store ]
  %more = icmp ult i64 %i, %given
  br i1 %more, label %read, label %write
read:
  %argument_at = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument_at, align 8
  %kind_at = getelementptr i8, ptr %argument, i64 8
  %kind = load ptr, ptr %kind_at, align 8
  %content_at = getelementptr i8, ptr %argument, i64 16
  %exactly_array = icmp eq ptr %kind, %array_type
  br i1 %exactly_array, label %array, label %no_array
no_array:
  %exactly_float = icmp eq ptr %kind, %float_type
  br i1 %exactly_float, label %float, label %subtype_of_array
subtype_of_array:
  %is_array = call i32 @PyType_IsSubtype(ptr %kind, ptr %array_type)
  %as_array = icmp ne i32 %is_array, 0
  br i1 %as_array, label %array, label %subtype_of_float
subtype_of_float:
  %is_float = call i32 @PyType_IsSubtype(ptr %kind, ptr %float_type)
  %as_float = icmp ne i32 %is_float, 0
  br i1 %as_float, label %float, label %wrong
wrong:
  %type_error_at = getelementptr i8, ptr %program, i64 $type_error
  %type_error = load ptr, ptr %type_error_at, align 8
  call void @PyErr_SetString(ptr %type_error, ptr @wrong_type)
  ret i1 false
array:
  %data = load ptr, ptr %content_at, align 8
  br label %store
float:
  %double = load double, ptr %content_at, align 8
  %single = fptrunc double %double to float
  %scalar_bytes = mul i64 %i, 16
  %scalar = getelementptr i8, ptr %scalars, i64 %scalar_bytes
  %single_at = getelementptr i8, ptr %scalar, i64 8
  store double %double, ptr %scalar, align 8
  store float %single, ptr %single_at, align 4
  br label %store
store:
  %base = phi ptr [ %data, %array ], [ %scalar, %float ]
  %base_at = getelementptr ptr, ptr %bases, i64 %i
  store ptr %base, ptr %base_at, align 8
  %i_next = add i64 %i, 1
  br label %next
write:
  %table_at = getelementptr i8, ptr %program, i64 $table
  %table = load ptr, ptr %table_at, align 8
  %fills_at = getelementptr i8, ptr %program, i64 $fills
  %fills = load ptr, ptr %fills_at, align 8
  %fill_count_at = getelementptr i8, ptr %program, i64 $fill_count
  %fill_count = load i64, ptr %fill_count_at, align 8
  br label %each_fill
each_fill:
  %j = phi i64 [ 0, %write ], [ %j_next, %one_fill ]
  %more_fills = icmp ult i64 %j, %fill_count
  br i1 %more_fills, label %one_fill, label %done
one_fill:
  %fill_bytes = mul i64 %j, 24
  %fill = getelementptr i8, ptr %fills, i64 %fill_bytes
  %from_at = getelementptr i64, ptr %fill, i64 1
  %offset_at = getelementptr i64, ptr %fill, i64 2
  %entry_number = load i64, ptr %fill, align 8
  %from_number = load i64, ptr %from_at, align 8
  %offset = load i64, ptr %offset_at, align 8
  %from = getelementptr ptr, ptr %bases, i64 %from_number
  %pointer = load ptr, ptr %from, align 8
  %moved = getelementptr i8, ptr %pointer, i64 %offset
  %entry_at = getelementptr ptr, ptr %table, i64 %entry_number
  store ptr %moved, ptr %entry_at, align 8
  %j_next = add i64 %j, 1
  br label %each_fill
done:
  ret i1 true
}

; What Python calls (METH_FASTCALL): run the program on its arguments; return None, or the code of a failed kernel.
define ptr @entry(ptr %self, ptr %arguments, i64 %given) $attributes {
entry:
  %program = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %externals_at = getelementptr i8, ptr %program, i64 $externals
  %externals = load i64, ptr %externals_at, align 8
  %right = icmp eq i64 %externals, %given
  br i1 %right, label %ready, label %wrong
wrong:
  %type_error_at = getelementptr i8, ptr %program, i64 $type_error
  %type_error = load ptr, ptr %type_error_at, align 8
  call void @PyErr_SetString(ptr %type_error, ptr @wrong_number)
  ret ptr null
ready:
  %starter_at = getelementptr i8, ptr %program, i64 $starter
  %starter = load ptr, ptr %starter_at, align 8
  %wants = icmp ne ptr %starter, null
  br i1 %wants, label %look, label %begin
look:
  %pool_at = getelementptr i8, ptr %program, i64 $pool
  %pool = load ptr, ptr %pool_at, align 8
  %threads_at = getelementptr i8, ptr %pool, i64 $pool_threads
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %stopped = icmp eq i64 %threads, 0
  br i1 %stopped, label %start, label %begin
start:
  %nothing = call ptr @PyObject_CallNoArgs(ptr %starter)
  %raised = icmp eq ptr %nothing, null
  br i1 %raised, label %null, label %started
started:
  call void @Py_DecRef(ptr %nothing)
  br label %begin
null:
  ret ptr null
begin:
  %releases_at = getelementptr i8, ptr %program, i64 $releases
  %releases = load i64, ptr %releases_at, align 8
  %keeps = icmp eq i64 %releases, 0
  br i1 %keeps, label %fill, label %claim

; Short programs keep Python's lock all the time.
fill:
  %filled = call i1 @fill(ptr %program, ptr %arguments, i64 %given)
  br i1 %filled, label %run, label %null
run:
  %code_keeping = call i64 @run(ptr %program)
  br label %done

; Long ones let other Python threads run meanwhile, and hold a lock of their own: the table is being used.
claim:
  %lock_at = getelementptr i8, ptr %program, i64 $lock
  %try = cmpxchg ptr %lock_at, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %try, 1
  br i1 %free, label %claimed, label %wait
wait:
  ; Who holds it may need Python's lock before it lets go.
  %waiting = call ptr @PyEval_SaveThread()
  call void @mutex_lock(ptr %lock_at)
  call void @PyEval_RestoreThread(ptr %waiting)
  br label %claimed
claimed:
  %filled_too = call i1 @fill(ptr %program, ptr %arguments, i64 %given)
  br i1 %filled_too, label %run_released, label %unlock
unlock:
  call void @mutex_unlock(ptr %lock_at)
  ret ptr null
run_released:
  %saved = call ptr @PyEval_SaveThread()
  %code_releasing = call i64 @run(ptr %program)
  call void @mutex_unlock(ptr %lock_at)
  call void @PyEval_RestoreThread(ptr %saved)
  br label %done

done:
  %code = phi i64 [ %code_keeping, %run ], [ %code_releasing, %run_released ]
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %report, label %fine
report:
  %number = call ptr @PyLong_FromLongLong(i64 %code)
  ret ptr %number
fine:
  %none_at = getelementptr i8, ptr %program, i64 $none
  %none = load ptr, ptr %none_at, align 8
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

; Steps in memory, one after the other: what of each is the same every time; `cuda/steps.py` says where. Every kind of step is a
; function of its words, of bases (0, then the addresses of this call) and of a stream. False, and a Python exception, if it
; could not be done.
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)

; Launch a kernel. bases: 0, then addresses. False, and a Python exception, if the driver refuses.
define i1 @kernel(ptr %step, ptr %bases, i64 %stream) $attributes {
entry:
  %count_at = getelementptr i8, ptr %step, i64 $kernel_count
  %count = load i64, ptr %count_at, align 8
  %values = alloca i64, i64 %count, align 16
  %places = alloca ptr, i64 %count, align 16
  %operands = getelementptr i8, ptr %step, i64 $kernel_operands
  br label %each
each:
  %j = phi i64 [ 0, %entry ], [ %j_next, %one ]
  %left = icmp ult i64 %j, %count
  br i1 %left, label %one, label %run
one:
  %pair = mul i64 %j, 2
  %place_at = getelementptr i64, ptr %operands, i64 %pair
  %offset_at = getelementptr i64, ptr %place_at, i64 1
  %place = load i64, ptr %place_at, align 8
  %offset = load i64, ptr %offset_at, align 8
  %from = getelementptr i64, ptr %bases, i64 %place
  %start = load i64, ptr %from, align 8
  %value = add i64 %start, %offset
  %value_at = getelementptr i64, ptr %values, i64 %j
  store i64 %value, ptr %value_at, align 8
  %operand_at = getelementptr ptr, ptr %places, i64 %j
  store ptr %value_at, ptr %operand_at, align 8
  %j_next = add i64 %j, 1
  br label %each

; The driver waits where its queue is full, perhaps for something that needs Python's lock.
run:
  %driver_at = getelementptr i8, ptr %step, i64 $kernel_driver
  %driver = load ptr, ptr %driver_at, align 8
  %function_at = getelementptr i8, ptr %step, i64 $kernel_function
  %function = load ptr, ptr %function_at, align 8
  %blocks_at = getelementptr i8, ptr %step, i64 $kernel_blocks
  %blocks = load i32, ptr %blocks_at, align 8
  %threads_at = getelementptr i8, ptr %step, i64 $kernel_threads
  %threads = load i32, ptr %threads_at, align 8
  %shared_at = getelementptr i8, ptr %step, i64 $kernel_shared
  %shared = load i32, ptr %shared_at, align 8
  br label %try
try:
  %handler_at = phi i64 [ $kernel_prepare, %run ], [ $kernel_fail, %again ]
  %saved = call ptr @PyEval_SaveThread()
  %code = call i32 %driver(ptr %function, i32 %blocks, i32 1, i32 1, i32 %threads, i32 1, i32 1, i32 %shared,
                           i64 %stream, ptr %places, ptr null)
  call void @PyEval_RestoreThread(ptr %saved)
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %tell, label %fine
tell:
  %wide = sext i32 %code to i64
  %told = call ptr @PyLong_FromLongLong(i64 %wide)
  %nothing = icmp eq ptr %told, null
  br i1 %nothing, label %raised, label %ask
ask:
  %at = getelementptr i8, ptr %step, i64 %handler_at
  %handler = load ptr, ptr %at, align 8
  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %handler, ptr %told, ptr null)
  call void @Py_DecRef(ptr %told)
  %gives_up = icmp eq ptr %answer, null
  br i1 %gives_up, label %raised, label %again
again:
  call void @Py_DecRef(ptr %answer)
  br label %try
raised:
  ret i1 false
fine:
  ret i1 true
}

; Call a function of Python's, of the stream and the addresses.
define i1 @python(ptr %step, ptr %bases, i64 %stream) $attributes {
entry:
  %callable_at = getelementptr i8, ptr %step, i64 $python_function
  %callable = load ptr, ptr %callable_at, align 8
  %count_at = getelementptr i8, ptr %step, i64 $python_count
  %count = load i64, ptr %count_at, align 8
  %all = add i64 %count, 1
  %numbers = alloca ptr, i64 %all, align 16
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i_next, %keep ]
  %more = icmp ult i64 %i, %all
  br i1 %more, label %one, label %ask
one:
  %first = icmp eq i64 %i, 0
  %base_at = getelementptr i64, ptr %bases, i64 %i
  %base = load i64, ptr %base_at, align 8
  %number = select i1 %first, i64 %stream, i64 %base
  %object = call ptr @PyLong_FromLongLong(i64 %number)
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %drop, label %keep
keep:
  %object_at = getelementptr ptr, ptr %numbers, i64 %i
  store ptr %object, ptr %object_at, align 8
  %i_next = add i64 %i, 1
  br label %each
ask:
  %answer = call ptr @PyObject_Vectorcall(ptr %callable, ptr %numbers, i64 %all, ptr null)
  %refused = icmp eq ptr %answer, null
  br i1 %refused, label %drop, label %done
done:
  call void @Py_DecRef(ptr %answer)
  br label %drop
drop:
  %made = phi i64 [ %i, %one ], [ %all, %ask ], [ %all, %done ]
  %fine = phi i1 [ false, %one ], [ false, %ask ], [ true, %done ]
  br label %next_drop
next_drop:
  %j = phi i64 [ 0, %drop ], [ %j_next, %drop_one ]
  %left = icmp ult i64 %j, %made
  br i1 %left, label %drop_one, label %leave
drop_one:
  %made_at = getelementptr ptr, ptr %numbers, i64 %j
  %each_made = load ptr, ptr %made_at, align 8
  call void @Py_DecRef(ptr %each_made)
  %j_next = add i64 %j, 1
  br label %next_drop
leave:
  ret i1 %fine
}

; One of two steps, as a word of memory says.
define i1 @either(ptr %step, ptr %bases, i64 %stream) $attributes {
entry:
  %flag_at = getelementptr i8, ptr %step, i64 $either_flag
  %flag_place = load ptr, ptr %flag_at, align 8
  %flag = load i64, ptr %flag_place, align 8
  %set = icmp ne i64 %flag, 0
  %at = select i1 %set, i64 $either_yes, i64 $either_no
  %code_at = getelementptr i8, ptr %step, i64 %at
  %code = load ptr, ptr %code_at, align 8
  %words_at = getelementptr i8, ptr %code_at, i64 8
  %words = load ptr, ptr %words_at, align 8
  %done = call i1 %code(ptr %words, ptr %bases, i64 %stream)
  ret i1 %done
}

; Call a library, which its lock is held for: by bytes of its arguments that are the same every time, and addresses.
define i1 @library(ptr %step, ptr %bases, i64 %stream) $attributes {
entry:
  %status_at = alloca i32, align 4
  %type_at = alloca ptr, align 8
  %value_at = alloca ptr, align 8
  %trace_at = alloca ptr, align 8
  store i32 0, ptr %status_at, align 4
  %acquire_at = getelementptr i8, ptr %step, i64 $library_acquire
  %acquire = load ptr, ptr %acquire_at, align 8
  %held = call ptr @PyObject_CallNoArgs(ptr %acquire)
  %refused = icmp eq ptr %held, null
  br i1 %refused, label %null, label %locked
null:
  ret i1 false
locked:
  call void @Py_DecRef(ptr %held)
  %how = call i32 @called(ptr %step, ptr %bases, i64 %stream, ptr %status_at)
  call void @PyErr_Fetch(ptr %type_at, ptr %value_at, ptr %trace_at)
  %release_at = getelementptr i8, ptr %step, i64 $library_release
  %release = load ptr, ptr %release_at, align 8
  %released = call ptr @PyObject_CallNoArgs(ptr %release)
  %type = load ptr, ptr %type_at, align 8
  %value = load ptr, ptr %value_at, align 8
  %trace = load ptr, ptr %trace_at, align 8
  call void @PyErr_Restore(ptr %type, ptr %value, ptr %trace)
  %unreleased = icmp eq ptr %released, null
  br i1 %unreleased, label %null, label %unlocked
unlocked:
  call void @Py_DecRef(ptr %released)
  switch i32 %how, label %null [ i32 1, label %look
                                 i32 2, label %otherwise ]
otherwise:
  %otherwise_at = getelementptr i8, ptr %step, i64 $library_otherwise
  %words = load ptr, ptr %otherwise_at, align 8
  %asked = call i1 @python(ptr %words, ptr %bases, i64 %stream)
  ret i1 %asked
look:
  %status = load i32, ptr %status_at, align 4
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %tell, label %fine
tell:
  %fail_at = getelementptr i8, ptr %step, i64 $library_fail
  %fail = load ptr, ptr %fail_at, align 8
  %wide = sext i32 %status to i64
  %ignored = call i1 @told(ptr %fail, i64 %wide)
  ret i1 false
fine:
  ret i1 true
}

; Call a function of Python's, of a number.
define internal i1 @told(ptr %function, i64 %number) $attributes {
entry:
  %object = call ptr @PyLong_FromLongLong(i64 %number)
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %null, label %ask
ask:
  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %function, ptr %object, ptr null)
  call void @Py_DecRef(ptr %object)
  %refused = icmp eq ptr %answer, null
  br i1 %refused, label %null, label %fine
null:
  ret i1 false
fine:
  call void @Py_DecRef(ptr %answer)
  ret i1 true
}

; 0: a Python exception. 1: the library was called, and answered with a status. 2: an address has a bit that it must not have.
define internal i32 @called(ptr %step, ptr %bases, i64 %stream, ptr %status_at) $attributes {
entry:
  %row_at = alloca i64, align 8
  %turn_at = getelementptr i8, ptr %step, i64 $library_turn
  %turn_place = load ptr, ptr %turn_at, align 8
  %turn = load i64, ptr %turn_place, align 8
  %told_at = getelementptr i8, ptr %step, i64 $library_told
  %told_place = load ptr, ptr %told_at, align 8
  %told = load i64, ptr %told_place, align 8
  %same_turn = icmp eq i64 %turn, %stream
  %same_stream = icmp eq i64 %told, %stream
  %same = and i1 %same_turn, %same_stream
  br i1 %same, label %start, label %another
another:
  %prepare_at = getelementptr i8, ptr %step, i64 $library_prepare
  %prepare = load ptr, ptr %prepare_at, align 8
  %prepared = call i1 @told(ptr %prepare, i64 %stream)
  br i1 %prepared, label %start, label %null
null:
  ret i32 0
start:
  %arguments = getelementptr i8, ptr %step, i64 $library_arguments
  %places = getelementptr i8, ptr %step, i64 $library_places
  %count_at = getelementptr i8, ptr %step, i64 $library_count
  %count = load i64, ptr %count_at, align 8
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %i_next, %put ]
  %bits = phi i64 [ 0, %start ], [ %bits_next, %put ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %row
one:
  %number = mul i64 %i, 3
  %which_at = getelementptr i64, ptr %places, i64 %number
  %which = load i64, ptr %which_at, align 8
  %place_at = getelementptr i64, ptr %which_at, i64 1
  %place = load i64, ptr %place_at, align 8
  %offset_at = getelementptr i64, ptr %which_at, i64 2
  %offset = load i64, ptr %offset_at, align 8
  %is_stream = icmp slt i64 %place, 0
  br i1 %is_stream, label %put, label %find
find:
  %base_at = getelementptr i64, ptr %bases, i64 %place
  %base = load i64, ptr %base_at, align 8
  %address = add i64 %base, %offset
  %more_bits = or i64 %bits, %address
  br label %put
put:
  %bits_next = phi i64 [ %bits, %one ], [ %more_bits, %find ]
  %argument = phi i64 [ %stream, %one ], [ %address, %find ]
  %argument_at = getelementptr i64, ptr %arguments, i64 %which
  store i64 %argument, ptr %argument_at, align 8
  %i_next = add i64 %i, 1
  br label %each

; Where a row lies that is added, the library is told before.
row:
  %tell_at = getelementptr i8, ptr %step, i64 $library_tell_row
  %tell = load ptr, ptr %tell_at, align 8
  %rowless = icmp eq ptr %tell, null
  br i1 %rowless, label %check, label %where
where:
  %row_place_at = getelementptr i8, ptr %step, i64 $library_row
  %row_place = load i64, ptr %row_place_at, align 8
  %row_offset_at = getelementptr i8, ptr %step, i64 $library_row_offset
  %row_offset = load i64, ptr %row_offset_at, align 8
  %row_base_at = getelementptr i64, ptr %bases, i64 %row_place
  %row_base = load i64, ptr %row_base_at, align 8
  %row_address = add i64 %row_base, %row_offset
  store i64 %row_address, ptr %row_at, align 8
  %bits_of_row = or i64 %bits, %row_address
  br label %check
check:
  %all_bits = phi i64 [ %bits, %row ], [ %bits_of_row, %where ]
  %row_now = phi i64 [ 0, %row ], [ %row_address, %where ]
  %misaligned_at = getelementptr i8, ptr %step, i64 $library_misaligned
  %misaligned = load i64, ptr %misaligned_at, align 8
  %low = and i64 %all_bits, %misaligned
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %describe, label %leave
leave:
  ret i32 2
describe:
  br i1 %rowless, label %call, label %compare
compare:
  %known_at = getelementptr i8, ptr %step, i64 $library_row_told
  %known_place = load ptr, ptr %known_at, align 8
  %known = load i64, ptr %known_place, align 8
  %as_before = icmp eq i64 %known, %row_now
  br i1 %as_before, label %call, label %tell_row
tell_row:
  %description_at = getelementptr i8, ptr %step, i64 $library_description
  %description = load i64, ptr %description_at, align 8
  %attribute_at = getelementptr i8, ptr %step, i64 $library_attribute
  %attribute = load i64, ptr %attribute_at, align 8
  %refused = call i32 %tell(i64 %description, i64 %attribute, ptr %row_at, i64 8)
  store i32 %refused, ptr %status_at, align 4
  %accepted = icmp eq i32 %refused, 0
  br i1 %accepted, label %note, label %back
note:
  store i64 %row_now, ptr %known_place, align 8
  br label %call

; It may wait for something that needs Python's lock.
call:
  %function_at = getelementptr i8, ptr %step, i64 $library_function
  %function = load ptr, ptr %function_at, align 8
$load_arguments
  %saved = call ptr @PyEval_SaveThread()
  %code = call i32 %function($arguments)
  call void @PyEval_RestoreThread(ptr %saved)
  store i32 %code, ptr %status_at, align 4
  br label %back
back:
  ret i32 1
}

; Some steps, one after the other.
define internal i1 @run(ptr %sequence, ptr %bases, i64 %stream) $attributes {
entry:
  %count_at = getelementptr i8, ptr %sequence, i64 $count
  %count = load i64, ptr %count_at, align 8
  %steps = getelementptr i8, ptr %sequence, i64 $steps
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i_next, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %twice = mul i64 %i, 2
  %code_at = getelementptr ptr, ptr %steps, i64 %twice
  %code = load ptr, ptr %code_at, align 8
  %words_at = getelementptr ptr, ptr %code_at, i64 1
  %words = load ptr, ptr %words_at, align 8
  %i_next = add i64 %i, 1
  %fine = call i1 %code(ptr %words, ptr %bases, i64 %stream)
  br i1 %fine, label %each, label %null
null:
  ret i1 false
done:
  ret i1 true
}

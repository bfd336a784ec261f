; The builtin functions through which Python launches kernels of a GPU (METH_FASTCALL). What of a launch is the same every
; time lies in memory; `cuda/launching.py` says where. Objects that are lent are marked so; all others are given back.
@wrong_number = private constant $wrong_number
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyCFunction_GetSelf(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i64 @PyDict_Size(ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyObject_CallMethodObjArgs(ptr, ptr, ...)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_Type(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)

; Launch a kernel. bases: 0, then addresses. False, and a Python exception, if the driver refuses.
define internal i1 @go(ptr %step, ptr %bases, i64 %stream) $attributes {
entry:
  %count_at = getelementptr i8, ptr %step, i64 $count
  %count = load i64, ptr %count_at, align 8
  %values = alloca i64, i64 %count, align 16
  %places = alloca ptr, i64 %count, align 16
  %operands = getelementptr i8, ptr %step, i64 $operands
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
  %driver_at = getelementptr i8, ptr %step, i64 $driver
  %driver = load ptr, ptr %driver_at, align 8
  %function_at = getelementptr i8, ptr %step, i64 $function
  %function = load ptr, ptr %function_at, align 8
  %blocks_at = getelementptr i8, ptr %step, i64 $blocks
  %blocks = load i32, ptr %blocks_at, align 8
  %threads_at = getelementptr i8, ptr %step, i64 $threads
  %threads = load i32, ptr %threads_at, align 8
  %shared_at = getelementptr i8, ptr %step, i64 $shared
  %shared = load i32, ptr %shared_at, align 8
  br label %try
try:
  %handler_at = phi i64 [ $prepare, %run ], [ $fail, %again ]
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

; Of a stream and addresses, all of them Python's ints: launch a kernel.
define ptr @launch(ptr %self, ptr %arguments, i64 %given) $attributes {
entry:
  %step = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %wanted_at = getelementptr i8, ptr %step, i64 $given
  %wanted = load i64, ptr %wanted_at, align 8
  %bases = alloca i64, i64 %given, align 16
  %right = icmp eq i64 %wanted, %given
  br i1 %right, label %next, label %wrong
wrong:
  %type_error_at = getelementptr i8, ptr %step, i64 $type_error
  %type_error = load ptr, ptr %type_error_at, align 8
  call void @PyErr_SetString(ptr %type_error, ptr @wrong_number)
  ret ptr null
next:
  %i = phi i64 [ 0, %entry ], [ %i_next, %store ]
  %more = icmp ult i64 %i, %given
  br i1 %more, label %read, label %launch
read:
  %argument_at = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument_at, align 8
  %number = call i64 @PyLong_AsLongLong(ptr %argument)
  %doubtful = icmp eq i64 %number, -1
  br i1 %doubtful, label %look, label %store
look:
  %problem = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %problem, null
  br i1 %raised, label %null, label %store
store:
  %base_at = getelementptr i64, ptr %bases, i64 %i
  store i64 %number, ptr %base_at, align 8
  %i_next = add i64 %i, 1
  br label %next
launch:
  %stream = load i64, ptr %bases, align 8
  store i64 0, ptr %bases, align 8
  %done = call i1 @go(ptr %step, ptr %bases, i64 %stream)
  br i1 %done, label %fine, label %null
null:
  ret ptr null
fine:
  %none_at = getelementptr i8, ptr %step, i64 $none
  %none = load ptr, ptr %none_at, align 8
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

; Return the int that an object has under a name; -1, and an exception, if it has none.
define internal i64 @number_of(ptr %object, ptr %name) $attributes {
entry:
  %found = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %none, label %read
none:
  ret i64 -1
read:
  %number = call i64 @PyLong_AsLongLong(ptr %found)
  call void @Py_DecRef(ptr %found)
  ret i64 %number
}

; Return where an array begins; -1, and an exception, if it is none.
define internal i64 @address_of(ptr %finder, ptr %array) $attributes {
entry:
  %data_at = getelementptr i8, ptr %finder, i64 $data
  %data_name = load ptr, ptr %data_at, align 8
  %data = call ptr @PyObject_GetAttr(ptr %array, ptr %data_name)
  %missing = icmp eq ptr %data, null
  br i1 %missing, label %none, label %read
none:
  ret i64 -1
read:
  %ptr_at = getelementptr i8, ptr %finder, i64 $ptr
  %ptr_name = load ptr, ptr %ptr_at, align 8
  %address = call i64 @number_of(ptr %data, ptr %ptr_name)
  call void @Py_DecRef(ptr %data)
  ret i64 %address
}

; Put what an object has under a name into a tuple that is being made; false, and an exception, if it has none.
define internal i1 @put(ptr %tuple, i64 %place, ptr %object, ptr %name_at) $attributes {
entry:
  %name = load ptr, ptr %name_at, align 8
  %found = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %none, label %keep
none:
  ret i1 false
keep:
  %code = call i32 @PyTuple_SetItem(ptr %tuple, i64 %place, ptr %found)
  %fine = icmp eq i32 %code, 0
  ret i1 %fine
}

; Of a function, its inputs in a tuple, and its attributes in a dict: launch the kernel that is known for arrays that are
; like these, and return the array that it makes. Where there is none, or anything is uncommon, the finder's `otherwise`
; is called in its place.
define ptr @find(ptr %self, ptr %arguments, i64 %given) $attributes {
entry:
  %finder = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %otherwise_at = getelementptr i8, ptr %finder, i64 $otherwise
  %otherwise = load ptr, ptr %otherwise_at, align 8
  %next_at = alloca i64, align 8
  %name_at = alloca ptr, align 8
  %item_at = alloca ptr, align 8
  %three = icmp eq i64 %given, 3
  br i1 %three, label %begin, label %ask
ask:
  %answer = call ptr @PyObject_Vectorcall(ptr %otherwise, ptr %arguments, i64 %given, ptr null)
  ret ptr %answer

begin:
  %inputs_at = getelementptr ptr, ptr %arguments, i64 1
  %attributes_at = getelementptr ptr, ptr %arguments, i64 2
  %function = load ptr, ptr %arguments, align 8
  %inputs = load ptr, ptr %inputs_at, align 8
  %attributes = load ptr, ptr %attributes_at, align 8
  %count = call i64 @PyTuple_Size(ptr %inputs)
  %options = call i64 @PyDict_Size(ptr %attributes)
  %either = or i64 %count, %options
  %wrong = icmp slt i64 %either, 0
  br i1 %wrong, label %clear, label %make
clear:
  call void @PyErr_Clear()
  br label %ask
make:
  %room = add i64 %count, 2
  %bases = alloca i64, i64 %room, align 16
  store i64 0, ptr %bases, align 8
  %things = add i64 %count, %options
  %twice = mul i64 %things, 2
  %length = add i64 %twice, 1
  %key = call ptr @PyTuple_New(i64 %length)
  %no_key = icmp eq ptr %key, null
  br i1 %no_key, label %clear, label %start
start:
  call void @Py_IncRef(ptr %function)
  %put_function = call i32 @PyTuple_SetItem(ptr %key, i64 0, ptr %function)
  %kind_at = getelementptr i8, ptr %finder, i64 $kind
  %kind = load ptr, ptr %kind_at, align 8
  %contiguous_at = getelementptr i8, ptr %finder, i64 $contiguous
  %contiguous_name = load ptr, ptr %contiguous_at, align 8
  %true_at = getelementptr i8, ptr %finder, i64 $true
  %true = load ptr, ptr %true_at, align 8
  %shape_at = getelementptr i8, ptr %finder, i64 $shape
  %dtype_at = getelementptr i8, ptr %finder, i64 $dtype
  br label %each

; The key: the function, then of each array its shape and its dtype, then of each attribute its name and what it is.
each:
  %i = phi i64 [ 0, %start ], [ %i_next, %keep ]
  %place = phi i64 [ 1, %start ], [ %place_next, %keep ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %array, label %with_attributes
array:
  %lent_array = call ptr @PyTuple_GetItem(ptr %inputs, i64 %i)
  %type = call ptr @PyObject_Type(ptr %lent_array)
  call void @Py_DecRef(ptr %type)
  %is_one = icmp eq ptr %type, %kind
  br i1 %is_one, label %where, label %leave
where:
  %address = call i64 @address_of(ptr %finder, ptr %lent_array)
  %low = and i64 %address, $misaligned
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %order, label %leave
order:
  %contiguous = call ptr @PyObject_GetAttr(ptr %lent_array, ptr %contiguous_name)
  %unknown = icmp eq ptr %contiguous, null
  br i1 %unknown, label %leave, label %ordered
ordered:
  call void @Py_DecRef(ptr %contiguous)
  %is_contiguous = icmp eq ptr %contiguous, %true
  br i1 %is_contiguous, label %shape, label %leave
shape:
  %has_shape = call i1 @put(ptr %key, i64 %place, ptr %lent_array, ptr %shape_at)
  br i1 %has_shape, label %dtype, label %leave
dtype:
  %place_of_dtype = add i64 %place, 1
  %has_dtype = call i1 @put(ptr %key, i64 %place_of_dtype, ptr %lent_array, ptr %dtype_at)
  br i1 %has_dtype, label %keep, label %leave
keep:
  %i_next = add i64 %i, 1
  %place_next = add i64 %place, 2
  %base_at = getelementptr i64, ptr %bases, i64 %i_next
  store i64 %address, ptr %base_at, align 8
  br label %each
with_attributes:
  store i64 0, ptr %next_at, align 8
  %none_left = icmp eq i64 %options, 0
  br i1 %none_left, label %look, label %attribute
attribute:
  %at = phi i64 [ %place, %with_attributes ], [ %at_next, %named ]
  %another = call i32 @PyDict_Next(ptr %attributes, ptr %next_at, ptr %name_at, ptr %item_at)
  %all = icmp eq i32 %another, 0
  br i1 %all, label %look, label %named
named:
  %name = load ptr, ptr %name_at, align 8
  %item = load ptr, ptr %item_at, align 8
  call void @Py_IncRef(ptr %name)
  %put_name = call i32 @PyTuple_SetItem(ptr %key, i64 %at, ptr %name)
  %at_item = add i64 %at, 1
  call void @Py_IncRef(ptr %item)
  %put_item = call i32 @PyTuple_SetItem(ptr %key, i64 %at_item, ptr %item)
  %at_next = add i64 %at, 2
  br label %attribute
leave:
  call void @Py_DecRef(ptr %key)
  br label %clear

; What is known: the builtin function that launches, and the shape and the dtype of what it makes.
look:
  %entries_at = getelementptr i8, ptr %finder, i64 $entries
  %entries = load ptr, ptr %entries_at, align 8
  %known = call ptr @PyDict_GetItemWithError(ptr %entries, ptr %key)
  %is_new = icmp eq ptr %known, null
  br i1 %is_new, label %leave, label %met
met:
  call void @Py_IncRef(ptr %known)
  call void @Py_DecRef(ptr %key)
  %launch = call ptr @PyTuple_GetItem(ptr %known, i64 0)
  %made_shape = call ptr @PyTuple_GetItem(ptr %known, i64 1)
  %made_dtype = call ptr @PyTuple_GetItem(ptr %known, i64 2)
  %lent_capsule = call ptr @PyCFunction_GetSelf(ptr %launch)
  %step = call ptr @PyCapsule_GetPointer(ptr %lent_capsule, ptr null)
  %new_at = getelementptr i8, ptr %finder, i64 $new
  %new = load ptr, ptr %new_at, align 8
  %out = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %new, ptr %kind, ptr null)
  %no_out = icmp eq ptr %out, null
  br i1 %no_out, label %failed, label %fill
fill:
  %init_at = getelementptr i8, ptr %finder, i64 $init
  %init = load ptr, ptr %init_at, align 8
  %filled = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(ptr %out, ptr %init, ptr %made_shape,
                                                                 ptr %made_dtype, ptr null)
  %no_memory = icmp eq ptr %filled, null
  br i1 %no_memory, label %drop, label %place_out
place_out:
  call void @Py_DecRef(ptr %filled)
  %own_address = call i64 @address_of(ptr %finder, ptr %out)
  %nowhere = icmp eq i64 %own_address, -1
  br i1 %nowhere, label %drop, label %ask_stream
ask_stream:
  %last = add i64 %count, 1
  %last_at = getelementptr i64, ptr %bases, i64 %last
  store i64 %own_address, ptr %last_at, align 8
  %current_at = getelementptr i8, ptr %finder, i64 $stream
  %current = load ptr, ptr %current_at, align 8
  %stream = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %current, ptr null)
  %no_stream = icmp eq ptr %stream, null
  br i1 %no_stream, label %drop, label %go
go:
  %ptr_at = getelementptr i8, ptr %finder, i64 $ptr
  %ptr_name = load ptr, ptr %ptr_at, align 8
  %number = call i64 @number_of(ptr %stream, ptr %ptr_name)
  call void @Py_DecRef(ptr %stream)
  %nameless = icmp eq i64 %number, -1
  br i1 %nameless, label %drop, label %run
run:
  %done = call i1 @go(ptr %step, ptr %bases, i64 %number)
  br i1 %done, label %fine, label %drop
fine:
  call void @Py_DecRef(ptr %known)
  ret ptr %out
drop:
  call void @Py_DecRef(ptr %out)
  br label %failed
failed:
  call void @Py_DecRef(ptr %known)
  ret ptr null
}

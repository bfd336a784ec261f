; The builtin function through which Python launches a kernel of a GPU (METH_FASTCALL): of a stream and addresses, all
; of them Python's ints. What of it is the same at every launch lies in memory; `cuda/launching.py` says where.
@wrong_number = private constant $wrong_number
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyErr_Occurred()
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define ptr @launch(ptr %self, ptr %arguments, i64 %given) $attributes {
entry:
  %step = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %wanted_at = getelementptr i8, ptr %step, i64 $given
  %wanted = load i64, ptr %wanted_at, align 8
  %count_at = getelementptr i8, ptr %step, i64 $count
  %count = load i64, ptr %count_at, align 8
  %bases = alloca i64, i64 %given, align 16
  %values = alloca i64, i64 %count, align 16
  %places = alloca ptr, i64 %count, align 16
  %right = icmp eq i64 %wanted, %given
  br i1 %right, label %next, label %wrong
wrong:
  %type_error_at = getelementptr i8, ptr %step, i64 $type_error
  %type_error = load ptr, ptr %type_error_at, align 8
  call void @PyErr_SetString(ptr %type_error, ptr @wrong_number)
  ret ptr null

; What is given, as numbers.
next:
  %i = phi i64 [ 0, %entry ], [ %i_next, %store ]
  %more = icmp ult i64 %i, %given
  br i1 %more, label %read, label %fill
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

; Each operand: one of these (the first, the stream, stands for none), and some bytes.
fill:
  %stream = load i64, ptr %bases, align 8
  store i64 0, ptr %bases, align 8
  %operands = getelementptr i8, ptr %step, i64 $operands
  br label %each
each:
  %j = phi i64 [ 0, %fill ], [ %j_next, %one ]
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
  br i1 %nothing, label %null, label %raise
raise:
  %at = getelementptr i8, ptr %step, i64 %handler_at
  %handler = load ptr, ptr %at, align 8
  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %handler, ptr %told, ptr null)
  call void @Py_DecRef(ptr %told)
  %gives_up = icmp eq ptr %answer, null
  br i1 %gives_up, label %null, label %again
again:
  call void @Py_DecRef(ptr %answer)
  br label %try
null:
  ret ptr null
fine:
  %none_at = getelementptr i8, ptr %step, i64 $none
  %none = load ptr, ptr %none_at, align 8
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

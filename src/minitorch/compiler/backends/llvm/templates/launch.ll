; The builtin functions through which Python launches what runs on a GPU (METH_FASTCALL): sequences of steps (`steps.ll`).
@wrong_number = private constant $wrong_number
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyCFunction_GetSelf(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare void @PyErr_Clear()
declare i32 @PyErr_GivenExceptionMatches(ptr, ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare i64 @PyList_Size(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_Type(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)

; Of a stream and addresses, all of them Python's ints: run the steps of a sequence.
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
  %done = call i1 @run(ptr %step, ptr %bases, i64 %stream)
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
  %number = call i64 @as_number(ptr %found)
  ret i64 %number
}

; Return an int, and let go of it; -1, and an exception, if it is none.
define internal i64 @as_number(ptr %found) $attributes {
entry:
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %none, label %read
none:
  ret i64 -1
read:
  %number = call i64 @PyLong_AsLongLong(ptr %found)
  call void @Py_DecRef(ptr %found)
  ret i64 %number
}

; Return an attribute of an object: by what its class reads it with, if that is known, else by its name. Null, and an
; exception, if it has none.
define internal ptr @attribute(ptr %object, ptr %class, ptr %attribute) $attributes {
entry:
  %reader_at = getelementptr i8, ptr %attribute, i64 8
  %reader = load ptr, ptr %reader_at, align 8
  %unknown = icmp eq ptr %reader, null
  br i1 %unknown, label %ask, label %read
ask:
  %name = load ptr, ptr %attribute, align 8
  %asked = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  ret ptr %asked
read:
  %descriptor_at = getelementptr i8, ptr %attribute, i64 16
  %descriptor = load ptr, ptr %descriptor_at, align 8
  %found = call ptr %reader(ptr %descriptor, ptr %object, ptr %class)
  ret ptr %found
}

; Return where an array begins; -1, and an exception, if it is none.
define internal i64 @address_of(ptr %finder, ptr %array, ptr %kind) $attributes {
entry:
  %data_at = getelementptr i8, ptr %finder, i64 $data
  %data = call ptr @attribute(ptr %array, ptr %kind, ptr %data_at)
  %missing = icmp eq ptr %data, null
  br i1 %missing, label %none, label %look
none:
  ret i64 -1
look:
  %ptr_at = getelementptr i8, ptr %finder, i64 $ptr
  %pointer_at = getelementptr i8, ptr %finder, i64 $pointer
  %pointer = load ptr, ptr %pointer_at, align 8
  %type = call ptr @PyObject_Type(ptr %data)
  call void @Py_DecRef(ptr %type)
  %is_one = icmp eq ptr %type, %pointer
  br i1 %is_one, label %read, label %ask
read:
  %found = call ptr @attribute(ptr %data, ptr %pointer, ptr %ptr_at)
  %address = call i64 @as_number(ptr %found)
  br label %done
ask:
  %ptr_name = load ptr, ptr %ptr_at, align 8
  %asked = call i64 @number_of(ptr %data, ptr %ptr_name)
  br label %done
done:
  %answer = phi i64 [ %address, %read ], [ %asked, %ask ]
  call void @Py_DecRef(ptr %data)
  ret i64 %answer
}

; Put an attribute of an array into a tuple that is being made; false, and an exception, if it has none.
define internal i1 @put(ptr %tuple, i64 %place, ptr %array, ptr %kind, ptr %attribute) $attributes {
entry:
  %found = call ptr @attribute(ptr %array, ptr %kind, ptr %attribute)
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %none, label %keep
none:
  ret i1 false
keep:
  %code = call i32 @PyTuple_SetItem(ptr %tuple, i64 %place, ptr %found)
  %fine = icmp eq i32 %code, 0
  ret i1 %fine
}

; Launch the kernels that are known for a function of arrays that are like these, and return the arrays that they make; null if
; there are none, or anything is uncommon, or with an exception.
define internal ptr @made(ptr %finder, ptr %function, ptr %arrays, i64 %count, ptr %names, ptr %items,
                          i64 %options) $attributes {
entry:
  %filling = alloca ptr, i64 3, align 16
  %room = add i64 %count, 1
  %addresses = alloca i64, i64 %room, align 16
  %twice = mul i64 %count, 2
  %thrice = mul i64 %options, 3
  %both = add i64 %twice, %thrice
  %length = add i64 %both, 1
  %key = call ptr @PyTuple_New(i64 %length)
  %no_key = icmp eq ptr %key, null
  br i1 %no_key, label %null, label %start
null:
  ret ptr null
start:
  call void @Py_IncRef(ptr %function)
  %put_function = call i32 @PyTuple_SetItem(ptr %key, i64 0, ptr %function)
  %kind_at = getelementptr i8, ptr %finder, i64 $kind
  %kind = load ptr, ptr %kind_at, align 8
  %contiguous_at = getelementptr i8, ptr %finder, i64 $contiguous
  %true_at = getelementptr i8, ptr %finder, i64 $true
  %true = load ptr, ptr %true_at, align 8
  %shape_at = getelementptr i8, ptr %finder, i64 $shape
  %dtype_at = getelementptr i8, ptr %finder, i64 $dtype
  br label %each

; The key: the function, then of each array its shape and its dtype, of each number its class and itself (1, True and 1.0 are
; equal), then of each attribute its name, what it is, and its class.
each:
  %i = phi i64 [ 0, %start ], [ %i_next, %keep ], [ %i_next_number, %number ]
  %place = phi i64 [ 1, %start ], [ %place_next, %keep ], [ %place_next_number, %number ]
  %held = phi i64 [ 0, %start ], [ %held_next, %keep ], [ %held, %number ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look_at, label %attributes
look_at:
  %array_at = getelementptr ptr, ptr %arrays, i64 %i
  %array = load ptr, ptr %array_at, align 8
  %type = call ptr @PyObject_Type(ptr %array)
  call void @Py_DecRef(ptr %type)
  %is_one = icmp eq ptr %type, %kind
  br i1 %is_one, label %where, label %other
other:
  %is_number = call i1 @is_number(ptr %finder, ptr %type)
  br i1 %is_number, label %number, label %leave
number:
  call void @Py_IncRef(ptr %type)
  %put_type = call i32 @PyTuple_SetItem(ptr %key, i64 %place, ptr %type)
  %place_of_number = add i64 %place, 1
  call void @Py_IncRef(ptr %array)
  %put_number = call i32 @PyTuple_SetItem(ptr %key, i64 %place_of_number, ptr %array)
  %i_next_number = add i64 %i, 1
  %place_next_number = add i64 %place, 2
  br label %each
where:
  %address = call i64 @address_of(ptr %finder, ptr %array, ptr %kind)
  %low = and i64 %address, $misaligned
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %order, label %leave
order:
  %contiguous = call ptr @attribute(ptr %array, ptr %kind, ptr %contiguous_at)
  %unknown = icmp eq ptr %contiguous, null
  br i1 %unknown, label %leave, label %ordered
ordered:
  call void @Py_DecRef(ptr %contiguous)
  %is_contiguous = icmp eq ptr %contiguous, %true
  br i1 %is_contiguous, label %shape, label %leave
shape:
  %has_shape = call i1 @put(ptr %key, i64 %place, ptr %array, ptr %kind, ptr %shape_at)
  br i1 %has_shape, label %dtype, label %leave
dtype:
  %place_of_dtype = add i64 %place, 1
  %has_dtype = call i1 @put(ptr %key, i64 %place_of_dtype, ptr %array, ptr %kind, ptr %dtype_at)
  br i1 %has_dtype, label %keep, label %leave
keep:
  %i_next = add i64 %i, 1
  %place_next = add i64 %place, 2
  %base_at = getelementptr i64, ptr %addresses, i64 %held
  store i64 %address, ptr %base_at, align 8
  %held_next = add i64 %held, 1
  br label %each
attributes:
  %j = phi i64 [ 0, %each ], [ %j_next, %named ]
  %at = phi i64 [ %place, %each ], [ %at_next, %named ]
  %left = icmp ult i64 %j, %options
  br i1 %left, label %named, label %look
named:
  %name_at = getelementptr ptr, ptr %names, i64 %j
  %name = load ptr, ptr %name_at, align 8
  %item_at = getelementptr ptr, ptr %items, i64 %j
  %item = load ptr, ptr %item_at, align 8
  call void @Py_IncRef(ptr %name)
  %put_name = call i32 @PyTuple_SetItem(ptr %key, i64 %at, ptr %name)
  %at_item = add i64 %at, 1
  call void @Py_IncRef(ptr %item)
  %put_item = call i32 @PyTuple_SetItem(ptr %key, i64 %at_item, ptr %item)
  %at_class = add i64 %at, 2
  %class = call ptr @PyObject_Type(ptr %item)
  %put_class = call i32 @PyTuple_SetItem(ptr %key, i64 %at_class, ptr %class)
  %j_next = add i64 %j, 1
  %at_next = add i64 %at, 3
  br label %attributes
leave:
  call void @Py_DecRef(ptr %key)
  %problem = call ptr @PyErr_Occurred()
  %plain = icmp eq ptr %problem, null
  br i1 %plain, label %null, label %weigh
weigh:
  %error_at = getelementptr i8, ptr %finder, i64 $error
  %error = load ptr, ptr %error_at, align 8
  %is_error = call i32 @PyErr_GivenExceptionMatches(ptr %problem, ptr %error)
  %stays = icmp eq i32 %is_error, 0  ; (Ctrl-C)
  br i1 %stays, label %null, label %forget
forget:
  call void @PyErr_Clear()
  ret ptr null

; What is known: the builtin function that launches; of each array that it takes besides, shape and dtype; and how many of
; these are results, the others being memory for the time of the launch: -1 of one that is returned alone.
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
  %capsule = call ptr @PyCFunction_GetSelf(ptr %launch)
  %step = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  %described = call ptr @PyTuple_GetItem(ptr %known, i64 1)
  %returned = call ptr @PyTuple_GetItem(ptr %known, i64 2)
  %results = call i64 @PyLong_AsLongLong(ptr %returned)
  %twice_outs = call i64 @PyTuple_Size(ptr %described)
  %outs = lshr i64 %twice_outs, 1
  %made = alloca ptr, i64 %outs, align 16
  %all_addresses = add i64 %held, %outs
  %all = add i64 %all_addresses, 1
  %bases = alloca i64, i64 %all, align 16
  store i64 0, ptr %bases, align 8
  br label %copy
copy:
  %c = phi i64 [ 0, %met ], [ %c_next, %copy_one ]
  %uncopied = icmp ult i64 %c, %held
  br i1 %uncopied, label %copy_one, label %make
copy_one:
  %from_at = getelementptr i64, ptr %addresses, i64 %c
  %from = load i64, ptr %from_at, align 8
  %c_next = add i64 %c, 1
  %to_at = getelementptr i64, ptr %bases, i64 %c_next
  store i64 %from, ptr %to_at, align 8
  br label %copy
make:
  %new_at = getelementptr i8, ptr %finder, i64 $new
  %new = load ptr, ptr %new_at, align 8
  %nothing_at = getelementptr i8, ptr %finder, i64 $nothing
  %nothing = load ptr, ptr %nothing_at, align 8
  %init_at = getelementptr i8, ptr %finder, i64 $init
  %init = load ptr, ptr %init_at, align 8
  br label %each_out
each_out:
  %o = phi i64 [ 0, %make ], [ %o_next, %placed ]
  %unmade = icmp ult i64 %o, %outs
  br i1 %unmade, label %make_one, label %ask_stream
make_one:
  %out = call ptr %new(ptr %kind, ptr %nothing, ptr null)
  %no_out = icmp eq ptr %out, null
  br i1 %no_out, label %drop, label %fill
fill:
  %o_next = add i64 %o, 1
  %made_at = getelementptr ptr, ptr %made, i64 %o
  store ptr %out, ptr %made_at, align 8
  %of_shape = mul i64 %o, 2
  %of_dtype = add i64 %of_shape, 1
  %made_shape = call ptr @PyTuple_GetItem(ptr %described, i64 %of_shape)
  %made_dtype = call ptr @PyTuple_GetItem(ptr %described, i64 %of_dtype)
  store ptr %out, ptr %filling, align 8
  %shape_given = getelementptr ptr, ptr %filling, i64 1
  store ptr %made_shape, ptr %shape_given, align 8
  %dtype_given = getelementptr ptr, ptr %filling, i64 2
  store ptr %made_dtype, ptr %dtype_given, align 8
  %filled = call ptr @PyObject_VectorcallMethod(ptr %init, ptr %filling, i64 3, ptr null)
  %no_memory = icmp eq ptr %filled, null
  br i1 %no_memory, label %drop, label %place_out
place_out:
  call void @Py_DecRef(ptr %filled)
  %own_address = call i64 @address_of(ptr %finder, ptr %out, ptr %kind)
  %nowhere = icmp eq i64 %own_address, -1
  br i1 %nowhere, label %drop, label %placed
placed:
  %own_place = add i64 %held, %o_next
  %own_at = getelementptr i64, ptr %bases, i64 %own_place
  store i64 %own_address, ptr %own_at, align 8
  br label %each_out
ask_stream:
  %current_at = getelementptr i8, ptr %finder, i64 $stream
  %current = load ptr, ptr %current_at, align 8
  %stream = call ptr @PyObject_CallNoArgs(ptr %current)
  %no_stream = icmp eq ptr %stream, null
  br i1 %no_stream, label %drop, label %go
go:
  %ptr_at = getelementptr i8, ptr %finder, i64 $ptr
  %ptr_name = load ptr, ptr %ptr_at, align 8
  %stream_number = call i64 @number_of(ptr %stream, ptr %ptr_name)
  call void @Py_DecRef(ptr %stream)
  %nameless = icmp eq i64 %stream_number, -1
  br i1 %nameless, label %drop, label %run
run:
  %done = call i1 @run(ptr %step, ptr %bases, i64 %stream_number)
  br i1 %done, label %fine, label %drop
fine:
  %alone = icmp slt i64 %results, 0
  br i1 %alone, label %one_alone, label %several
one_alone:
  %only = load ptr, ptr %made, align 8
  br label %drop
several:
  %together = call ptr @PyTuple_New(i64 %results)
  %no_tuple = icmp eq ptr %together, null
  br i1 %no_tuple, label %drop, label %each_result
each_result:
  %r = phi i64 [ 0, %several ], [ %r_next, %put_result ]
  %unput = icmp ult i64 %r, %results
  br i1 %unput, label %put_result, label %drop
put_result:
  %result_at = getelementptr ptr, ptr %made, i64 %r
  %result = load ptr, ptr %result_at, align 8
  %put_one = call i32 @PyTuple_SetItem(ptr %together, i64 %r, ptr %result)
  %r_next = add i64 %r, 1
  br label %each_result

; Let go of what was made, but for what is returned.
drop:
  %answer = phi ptr [ null, %make_one ], [ null, %fill ], [ null, %place_out ], [ null, %ask_stream ], [ null, %go ],
                    [ null, %run ], [ %only, %one_alone ], [ null, %several ], [ %together, %each_result ]
  %first_dropped = phi i64 [ 0, %make_one ], [ 0, %fill ], [ 0, %place_out ], [ 0, %ask_stream ], [ 0, %go ], [ 0, %run ],
                           [ 1, %one_alone ], [ 0, %several ], [ %results, %each_result ]
  %all_made = phi i64 [ %o, %make_one ], [ %o_next, %fill ], [ %o_next, %place_out ], [ %outs, %ask_stream ],
                      [ %outs, %go ], [ %outs, %run ], [ %outs, %one_alone ], [ %outs, %several ], [ %outs, %each_result ]
  br label %each_drop
each_drop:
  %d = phi i64 [ %first_dropped, %drop ], [ %d_next, %drop_one ]
  %undropped = icmp ult i64 %d, %all_made
  br i1 %undropped, label %drop_one, label %return
drop_one:
  %dropped_at = getelementptr ptr, ptr %made, i64 %d
  %dropped = load ptr, ptr %dropped_at, align 8
  call void @Py_DecRef(ptr %dropped)
  %d_next = add i64 %d, 1
  br label %each_drop
return:
  call void @Py_DecRef(ptr %known)
  ret ptr %answer
}

; Whether a class is one of those of numbers.
define internal i1 @is_number(ptr %finder, ptr %class) $attributes {
entry:
  %first = getelementptr i8, ptr %finder, i64 $numbers
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i_next, %one ]
  %more = icmp ult i64 %i, $count_of_numbers
  br i1 %more, label %one, label %done
one:
  %at = getelementptr ptr, ptr %first, i64 %i
  %number = load ptr, ptr %at, align 8
  %same = icmp eq ptr %number, %class
  %i_next = add i64 %i, 1
  br i1 %same, label %done, label %each
done:
  %found = phi i1 [ false, %each ], [ true, %one ]
  ret i1 %found
}

; Of arrays, and attributes by their names (METH_KEYWORDS): what a function gives of them, by the kernel that is known for
; arrays that are like these; where there is none, or anything is uncommon, `otherwise` is called in its place.
define ptr @shortcut(ptr %self, ptr %arguments, i64 %count, ptr %keywords) $attributes {
entry:
  %own = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %busy_at = getelementptr i8, ptr %own, i64 $busy
  %busy = load ptr, ptr %busy_at, align 8
  %hindrances = call i64 @PyList_Size(ptr %busy)
  %hindered = icmp ne i64 %hindrances, 0
  br i1 %hindered, label %ask, label %begin
begin:
  %plain = icmp eq ptr %keywords, null
  br i1 %plain, label %look, label %name
name:
  %found = call i64 @PyTuple_Size(ptr %keywords)
  br label %look
look:
  %options = phi i64 [ 0, %begin ], [ %found, %name ]
  %names = alloca ptr, i64 %options, align 16
  br label %next
next:
  %i = phi i64 [ 0, %look ], [ %i_next, %one ]
  %more = icmp slt i64 %i, %options
  br i1 %more, label %one, label %make
one:
  %keyword = call ptr @PyTuple_GetItem(ptr %keywords, i64 %i)
  %keyword_at = getelementptr ptr, ptr %names, i64 %i
  store ptr %keyword, ptr %keyword_at, align 8
  %i_next = add i64 %i, 1
  br label %next
make:
  %finder_at = getelementptr i8, ptr %own, i64 $finder
  %finder = load ptr, ptr %finder_at, align 8
  %of_at = getelementptr i8, ptr %own, i64 $of
  %function = load ptr, ptr %of_at, align 8
  %items = getelementptr ptr, ptr %arguments, i64 %count
  %out = call ptr @made(ptr %finder, ptr %function, ptr %arguments, i64 %count, ptr %names, ptr %items, i64 %options)
  %is_none = icmp eq ptr %out, null
  br i1 %is_none, label %why, label %fine
fine:
  ret ptr %out
why:
  %problem = call ptr @PyErr_Occurred()
  %is_new = icmp eq ptr %problem, null
  br i1 %is_new, label %ask, label %null
null:
  ret ptr null
ask:
  %otherwise_at = getelementptr i8, ptr %own, i64 $otherwise
  %otherwise = load ptr, ptr %otherwise_at, align 8
  %answer = call ptr @PyObject_Vectorcall(ptr %otherwise, ptr %arguments, i64 %count, ptr %keywords)
  ret ptr %answer
}

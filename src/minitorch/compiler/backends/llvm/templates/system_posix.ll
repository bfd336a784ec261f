declare i32 @usleep(i32)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)

; Sleep for some microseconds.
define internal void @nap(i32 %microseconds) $attributes {
entry:
  %napped = call i32 @usleep(i32 %microseconds)
  ret void
}

; Let another thread have this core.
define internal void @yield() $attributes {
entry:
  %gave = call i32 @sched_yield()
  ret void
}

; Nanoseconds since some moment.
define internal i64 @clock() $attributes {
entry:
  %place = alloca [2 x i64]
  %known = call i32 @clock_gettime(i32 $clock, ptr %place)
  %seconds = load i64, ptr %place
  %rest_at = getelementptr i64, ptr %place, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %nanoseconds = add i64 %whole, %rest
  ret i64 %nanoseconds
}

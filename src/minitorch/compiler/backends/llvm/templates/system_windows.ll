declare void @Sleep(i32)
declare i32 @SwitchToThread()
declare i32 @QueryPerformanceCounter(ptr)

; Sleep for a millisecond, the shortest time there is.
define internal void @nap(i32 %microseconds) $attributes {
entry:
  call void @Sleep(i32 1)
  ret void
}

; Let another thread have this core.
define internal void @yield() $attributes {
entry:
  %gave = call i32 @SwitchToThread()
  ret void
}

; Nanoseconds since some moment.
define internal i64 @clock() $attributes {
entry:
  %place = alloca i64
  %known = call i32 @QueryPerformanceCounter(ptr %place)
  %ticks = load i64, ptr %place
  %nanoseconds = mul i64 %ticks, 100
  ret i64 %nanoseconds
}

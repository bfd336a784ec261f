; Waiting on Linux: the system keeps a list of those who sleep on a word of memory.
declare i64 @syscall(i64, ...)

; Sleep while a word has this value, or wake for no reason.
define internal void @sleep_while(ptr %word, i32 %value) $attributes {
entry:
  %slept = call i64 (i64, ...) @syscall(i64 $system_call, ptr %word, i32 128, i32 %value, ptr null, ptr null, i32 0)
  ret void
}

; Wake all who sleep on a word.
define internal void @wake(ptr %word) $attributes {
entry:
  %woken = call i64 (i64, ...) @syscall(i64 $system_call, ptr %word, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  ret void
}

; Waiting where the system offers nothing for it: look again and again, less and less often.

; Sleep while a word has this value.
define internal void @sleep_while(ptr %word, i32 %value) $attributes {
entry:
  %first = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %first, %value
  br i1 %same, label %wait, label %done
wait:
  %delay = phi i32 [ 1, %entry ], [ %capped, %wait ]
  call void @nap(i32 %delay)
  %twice = mul i32 %delay, 2
  %long = icmp ugt i32 %twice, 1024
  %capped = select i1 %long, i32 1024, i32 %twice
  %now = load atomic i32, ptr %word acquire, align 4
  %still = icmp eq i32 %now, %value
  br i1 %still, label %wait, label %done
done:
  ret void
}

; Who sleeps looks by itself.
define internal void @wake(ptr %word) $attributes {
entry:
  ret void
}

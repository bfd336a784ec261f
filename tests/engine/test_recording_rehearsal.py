"""A program is tried in one thread; what others do meanwhile is meant."""

from concurrent.futures import ThreadPoolExecutor

from minitorch.engine.recording import is_rehearsing, rehearsal


def test_only_the_thread_that_tries_a_program_rehearses():
    with ThreadPoolExecutor(1) as other:
        with rehearsal(), rehearsal():
            assert is_rehearsing()
            assert not other.submit(is_rehearsing).result()
        assert not is_rehearsing()

from podsched.lib.token_bucket import TokenBucket


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(0.5, burst=2)
    assert [bucket.take(100.0) for _ in range(3)] == [True, True, False]
    assert not bucket.take(101.9)
    assert bucket.take(102.0)


def test_a_bucket_of_rate_zero_gives_nothing() -> None:
    bucket = TokenBucket(1.0)
    bucket.set_rate(0.0, 5.0)
    assert not bucket.take(1000.0)
    bucket.set_rate(1.0, 1000.0)
    assert bucket.take(1000.0)


def test_reserving_says_how_long_to_wait() -> None:
    bucket = TokenBucket(10.0, burst=5)
    assert bucket.reserve(5, 1.0) == 0.0
    assert bucket.reserve(5, 1.0) == 0.5
    assert bucket.reserve(5, 1.5) == 0.5

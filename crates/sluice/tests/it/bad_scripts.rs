//! Scripts that break the rules: no head, half a head, too much, too slow, dead, noisy.

#!/usr/bin/env python3
"""The permutations of src/pipeline/permute.c once more, from its words: what permute_test expects.

    make_permutations.py        prints counts, seeds, epochs and where the first positions go
"""

MASK = (1 << 64) - 1


def mix(a, b):
    for i in range(2):
        a = (a + 0x9E3779B97F4A7C15 + (b if i else 0)) & MASK
        a = ((a ^ a >> 30) * 0xBF58476D1CE4E5B9) & MASK
        a = ((a ^ a >> 27) * 0x94D049BB133111EB) & MASK
        a ^= a >> 31
    return a


def draw(x, key, radix):
    x = ((x ^ key) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ x >> 15) * 0xC2B2AE35) & 0xFFFFFFFF
    return (x ^ x >> 13) * radix >> 32


def permute(count, seed, epoch, x):
    low = 1
    while low * low < count:
        low += 1
    high = -(-count // low)
    key = mix(seed, epoch)
    keys = [mix(key, r) >> 32 for r in range(32 if count < 1024 else 6)]
    while True:
        h, l = divmod(x, low)
        for r in range(0, len(keys), 2):
            h = (h + draw(l, keys[r], high)) % high
            l = (l + draw(h, keys[r + 1], low)) % low
        x = h * low + l
        if x < count:
            return x


for count, seed, epoch in ((10, 42, 0), (1281167, 0, 3)):
    print(count, seed, epoch, [permute(count, seed, epoch, x) for x in range(8)])

"""Prints a C function on which the compiler spends about a minute."""

import random

STATEMENTS = 6000

numbers = random.Random(1)
print("int big(int *a, int n) {\n  int x = n;")
for line in range(STATEMENTS):
    mask = numbers.randrange(1, 9999)
    print(f"  if (a[{line}] > x) x += a[x & {mask}] * {line + 1}; else a[{line}] ^= x << {line % 7};")
print("  return x;\n}")

"""Benchmarks of kernelpress beside a copy of the same bytes and beside other libraries."""

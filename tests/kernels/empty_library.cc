// A library that exports only this function, for a test that searches for a library.
extern "C" int empty() { return 1; }

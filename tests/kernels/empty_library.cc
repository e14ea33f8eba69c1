// A library that has nothing but itself, for a test that looks for one.
extern "C" int empty() { return 1; }

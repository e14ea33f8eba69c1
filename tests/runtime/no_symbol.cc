// A library that is none of ours.
extern "C" int isthmus_something_else(void) { return 1; }

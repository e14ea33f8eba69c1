// A library without the symbol that the CUDA device needs.
extern "C" int isthmus_something_else(void) { return 1; }

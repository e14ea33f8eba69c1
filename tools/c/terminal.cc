// LLVM's support library asks terminfo whether a stream is a terminal with colours. This library
// writes to no stream and does without terminfo: these stubs answer that there is no such terminal.

extern "C" {
int setupterm(const char *, int, int *) { return -1; }
void *set_curterm(void *) { return nullptr; }
int del_curterm(void *) { return -1; }
int tigetnum(const char *) { return -1; }
}

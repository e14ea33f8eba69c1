// Ctrl-C: ends a search for a plan, which then gives the best so far, and at any other time the
// process, with exit code 130.
#pragma once

namespace isthmus {

void onInterrupt(); // the handler

// While one of these lives, an interrupt is noted rather than obeyed; a second one is obeyed. They
// nest: what the outer one was told, the inner one knows.
class InterruptNoted {
public:
  InterruptNoted();
  ~InterruptNoted();
  bool happened() const;
};

} // namespace isthmus

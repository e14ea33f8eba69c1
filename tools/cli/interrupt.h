// Ctrl-C: during a search for a plan it ends the search, which then returns its best plan; at any
// other time it ends the process with exit code 130.
#pragma once

namespace isthmus {

void onInterrupt(); // the handler

// While one of these lives, an interrupt is noted and not obeyed; a second one is obeyed. They
// nest: an inner object also knows of interrupts that an outer one has noted.
class InterruptNoted {
public:
  InterruptNoted();
  ~InterruptNoted();
  bool happened() const;
};

} // namespace isthmus

// Ctrl-C: during a search for a plan it ends the search, which then returns its best plan; at any
// other time it ends the process with exit code 130.
//
// A search of a large problem asks only now and then whether it was interrupted. While it has no
// plan, nothing is lost if the process ends without waiting for it.
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
  // From now on, until `hasResult`, an interrupt that is not heeded soon ends the process.
  void setHasResult(bool hasResult);
};

} // namespace isthmus

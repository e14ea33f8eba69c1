// Signs of life that the processes of a group send one another, so that one that hangs is noticed.
//
// A thread of each process, which computes nothing, sends a datagram every quarter of a second to
// the processes of the next ranks, and hears those of the ranks before it. A long computation beats
// on; a stopped process, or one on a host that is gone, falls silent. Datagrams are no part of MPI,
// which one thread alone may call. A process that was never heard, as where a firewall drops
// datagrams, does not count as silent; nor do others while this process itself was stopped.
#pragma once

#include "runtime/process_group.h"
#include <chrono>
#include <optional>

namespace isthmus {

class Heartbeats {
public:
  // Collective. Begins to beat; the deadline is `kUsualDeadline`. Errors: those of the group.
  static llvm::Expected<std::unique_ptr<Heartbeats>> start(ProcessGroup &group);
  virtual ~Heartbeats() = default; // ends the thread

  static constexpr std::chrono::seconds kUsualDeadline{60};
  // How long a process may be silent; 0: for ever.
  virtual void setDeadline(std::chrono::seconds deadline) = 0;
  virtual std::chrono::seconds deadline() const = 0;
  // The rank of a process that was heard once, and has been silent for longer than that.
  virtual std::optional<uint32_t> silentRank() const = 0;
};

} // namespace isthmus

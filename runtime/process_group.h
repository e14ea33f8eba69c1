// The processes that run one step together, each the program of one device.
//
// All processes go the same way: they call what is marked as collective in the same order. A call
// returns when all have made it, as far as it needs them.
#pragma once

#include "runtime/transport.h"
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace isthmus {

class ProcessGroup {
public:
  virtual ~ProcessGroup() = default;

  virtual uint32_t rank() const = 0; // of this process, from 0 on
  virtual uint32_t size() const = 0;
  virtual const std::string &host() const = 0; // the name of this process's host
  virtual uint32_t rankOnHost() const = 0;     // among the processes of this host, from 0 on

  // This process's end of a transport, for the device at its rank. The other ends are in the other
  // processes. The group must outlive it. After an abort of this end, collective calls of this
  // process are errors too; the other processes end when this one calls `end`.
  virtual std::unique_ptr<Transport> transport(const std::vector<std::string> &devices) = 0;

  // Collective. Afterwards `data` holds the root's bytes in all processes.
  virtual llvm::Error broadcast(void *data, int64_t bytes, uint32_t root) = 0;
  // Collective. `all` gets `bytes` of each process, by rank.
  virtual llvm::Error allGather(const void *own, int64_t bytes, void *all) = 0;

  // Ends this process's part. With exit code 0 it waits for the others to get here; with any other
  // it ends all processes, this one included, and does not return.
  virtual void end(int exitCode) = 0;

  // How long a process may give no sign of life before it counts as hanging, and waits for the
  // others end with an error; 0: for ever. A long computation is no silence.
  virtual void setDeadline(std::chrono::seconds deadline) = 0;
};

// Collective. Afterwards `text` is the root's in all processes.
llvm::Error broadcastText(std::string &text, ProcessGroup &group, uint32_t root);

} // namespace isthmus

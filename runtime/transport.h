// What carries messages between the devices of a step.
//
// Each device of a step has one end of the transport, which one thread uses. A message is known by
// its ends and its tag; messages with equal ones are received in the order in which they were sent.
// Nothing is copied into buffers of the transport's own where it can be avoided: both ends keep the
// bytes where they are until the message is known to be complete.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>

namespace isthmus {

// The tags of a step's messages are below it. Transports use others between their own ends.
constexpr int64_t kMostTags = int64_t(1) << 30;

class Transport {
public:
  virtual ~Transport() = default;

  // Start a message to or from the device of that name, and return its number for `wait` and
  // `test`. `data` must stay, and be left alone, until one of them says that the message is
  // complete.
  virtual llvm::Expected<uint64_t> isend(llvm::StringRef to, int64_t tag, const void *data,
                                         int64_t bytes) = 0;
  virtual llvm::Expected<uint64_t> irecv(llvm::StringRef from, int64_t tag, void *data,
                                         int64_t bytes) = 0;
  // Returns when the message is complete; sleeps until then. Error if the other end failed.
  virtual llvm::Error wait(uint64_t message) = 0;
  // Whether the message is complete; returns at once. Errors as for `wait`.
  virtual llvm::Expected<bool> test(uint64_t message) = 0;

  // Lets messages under way go on. Call it now and then while computing: some networks move a
  // message only in calls. Error: an end was aborted.
  virtual llvm::Error progress() = 0;

  // Ends all waits of all ends, now and from now on, with an error that says `why`.
  virtual void abort(llvm::StringRef why) = 0;

  // Seconds that this end has waited since the last call.
  virtual double takeWaited() = 0;
};

} // namespace isthmus

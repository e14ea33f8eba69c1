// One direction between the memories of two devices: what moves a message when both ends are ready.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>

namespace isthmus {

class Channel {
public:
  virtual ~Channel() = default; // ends what still moves

  // At the end that sends: the name of the channel, which both ends open.
  virtual llvm::Expected<std::string> makeId() = 0;
  // Begins to open. False: there can be no channel between these two devices.
  virtual llvm::Expected<bool> open(llvm::StringRef id) = 0;
  // Whether messages may be started.
  virtual llvm::Expected<bool> isOpen() = 0;

  // `message` is a number that the caller chooses. It begins to move no earlier than `start`, and
  // not before the kernels have run that were launched before `post`. Both ends start messages in
  // one order.
  virtual llvm::Error post(uint64_t message) = 0;
  virtual llvm::Error start(uint64_t message, char *data, int64_t bytes) = 0;
  // Whether the message has moved. Messages are asked about in the order of their starts, and no
  // more once they have moved.
  virtual llvm::Expected<bool> isDone(uint64_t message) = 0;
};

} // namespace isthmus

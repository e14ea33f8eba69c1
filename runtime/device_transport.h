// Messages between devices whose memory the host does not read.
//
// Such a message moves through a channel of its two devices (runtime/channel.h), whose ends must
// start messages in one order. Programs start theirs in any order: a device may send two values and
// the other one receive the second first. So the ends agree by small messages of the host: the one
// that receives says what it is ready for, and the one that sends answers with what it starts next.
// Nothing is started before both are ready, so that no device waits for another that computes.
#pragma once

#include "runtime/device.h"
#include "runtime/transport.h"
#include <memory>

namespace isthmus {

// An end for messages in the memory of `device`; `host` is the end of the same device for messages
// in the host's memory. Where two devices have no channel, bytes are copied to the host's memory,
// sent by `host`, and copied from there. The device must outlive the transport.
std::unique_ptr<Transport> makeDeviceTransport(Device &device, std::unique_ptr<Transport> host);

} // namespace isthmus

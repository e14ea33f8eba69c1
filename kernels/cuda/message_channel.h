// A channel between two GPUs (runtime/channel.h), by NCCL.
//
// Each channel has a communicator of its two ends and a stream. So messages of different channels
// do not wait for one another, and those of one channel move in the order of their starts.
#pragma once

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/nccl.h"
#include <deque>
#include <map>
#include <memory>

namespace isthmus::cuda {

// Functions that can fail return null or a message. All apply to the selected device.
class MessageChannel {
public:
  // `uuid` is that of the GPU of this end. `queue` and `library` must outlive the channel.
  MessageChannel(const nccl::Library &library, const Queue &queue, std::string uuid, bool sends)
      : nccl_(library), queue_(queue), uuid_(std::move(uuid)), sends_(sends) {}
  ~MessageChannel(); // ends what still moves
  MessageChannel(const MessageChannel &) = delete;

  // At the end that sends: the channel's name, a text of at most 383 characters.
  const char *makeId(std::string &id);
  // Begins to open. `canOpen` is false if both ends are on one GPU, which NCCL refuses.
  const char *open(const std::string &id, bool &canOpen);
  const char *isOpen(bool &isOpen);

  const char *post(uint64_t message); // notes which launches come before it
  const char *start(uint64_t message, void *data, int64_t bytes);
  const char *isDone(uint64_t message, bool &isDone);

private:
  struct DropMark {
    void operator()(GpuMark *mark) const { gpuDropMark(mark); }
  };
  using Mark = std::unique_ptr<GpuMark, DropMark>;
  struct Message {
    Mark mark; // in the queue, then behind the message in the stream
    void *data = nullptr;
    int64_t bytes = 0;
  };

  const char *said(int result) const; // of a call of NCCL
  const char *launch(Message &m);
  // Launches what was started, as far as NCCL is done with its last call.
  const char *advance();

  const nccl::Library &nccl_;
  const Queue &queue_;
  const std::string uuid_;
  const bool sends_;
  nccl::Communicator *communicator_ = nullptr;
  GpuStream *stream_ = nullptr;
  bool isCalling_ = false; // whether NCCL is still busy with its last call
  std::map<uint64_t, Message> messages_;
  std::deque<uint64_t> started_; // not launched yet
  uint64_t calling_ = 0;         // the message of NCCL's call, or 0
};

} // namespace isthmus::cuda

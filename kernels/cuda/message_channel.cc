#include "kernels/cuda/message_channel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <utility>

namespace isthmus::cuda {
namespace {

constexpr size_t kDigitsOfId = 2 * sizeof(nccl::UniqueId);

} // namespace

// Communicators are aborted and not destroyed, since that would wait for the other end, which may
// be gone. All messages that anybody waits for have moved.
MessageChannel::~MessageChannel() {
  if (communicator_)
    nccl_.commAbort(communicator_);
  messages_.clear();
  if (stream_)
    gpuCloseStream(stream_);
}

const char *MessageChannel::said(int result) const {
  return result == nccl::kSuccess || result == nccl::kInProgress ? nullptr
                                                                 : nccl_.getErrorString(result);
}

// NCCL's name in hexadecimal digits, and the GPU of the end that sends.
const char *MessageChannel::makeId(std::string &id) {
  nccl::UniqueId unique = {};
  if (const char *failure = said(nccl_.getUniqueId(&unique)))
    return failure;
  id = llvm::toHex({unique.internal, sizeof unique.internal}) + " " + uuid_;
  return nullptr;
}

const char *MessageChannel::open(const std::string &id, bool &canOpen) {
  llvm::StringRef text = id;
  canOpen = sends_ || text.drop_front(kDigitsOfId + 1) != uuid_;
  if (!canOpen)
    return nullptr;
  nccl::UniqueId unique;
  llvm::copy(llvm::fromHex(text.take_front(kDigitsOfId)), unique.internal);
  if (const char *failure = gpuOpenStream(&stream_))
    return failure;
  nccl::Config config;
  isCalling_ = true;
  return said(nccl_.commInitRankConfig(&communicator_, 2, unique, sends_ ? 0 : 1, &config));
}

const char *MessageChannel::isOpen(bool &isOpen) {
  const char *failure = advance();
  isOpen = !failure && !isCalling_;
  return failure;
}

const char *MessageChannel::post(uint64_t message) {
  GpuMark *mark = nullptr;
  if (const char *failure = gpuNewMark(&mark))
    return failure;
  messages_[message].mark.reset(mark);
  return gpuMark(queue_, *mark);
}

const char *MessageChannel::start(uint64_t message, void *data, int64_t bytes) {
  Message &m = messages_[message];
  m.data = data;
  m.bytes = bytes;
  started_.push_back(message);
  return advance();
}

const char *MessageChannel::isDone(uint64_t message, bool &isDone) {
  isDone = false;
  if (const char *failure = advance())
    return failure;
  if (message == calling_ || std::find(started_.begin(), started_.end(), message) != started_.end())
    return nullptr;
  const auto m = messages_.find(message);
  const char *failure = gpuIsPast(*m->second.mark, &isDone);
  if (isDone)
    messages_.erase(m);
  return failure;
}

// The call may return before the message is on the stream; the mark behind it waits for that.
const char *MessageChannel::launch(Message &m) {
  if (const char *failure = gpuWaitOn(*stream_, *m.mark))
    return failure;
  isCalling_ = true;
  void *stream = gpuNative(*stream_);
  return said(sends_
                  ? nccl_.send(m.data, size_t(m.bytes), nccl::kBytes, 1, communicator_, stream)
                  : nccl_.receive(m.data, size_t(m.bytes), nccl::kBytes, 0, communicator_, stream));
}

const char *MessageChannel::advance() {
  while (isCalling_ || !started_.empty()) {
    if (isCalling_) {
      int result = nccl::kSuccess;
      if (const char *failure = said(nccl_.commGetAsyncError(communicator_, &result)))
        return failure;
      if (const char *failure = said(result))
        return failure;
      if (result == nccl::kInProgress)
        return nullptr;
      isCalling_ = false;
      if (const uint64_t launched = std::exchange(calling_, 0))
        if (const char *failure = gpuMark(*stream_, *messages_.at(launched).mark))
          return failure;
    }
    if (started_.empty())
      break;
    calling_ = started_.front();
    started_.pop_front();
    if (const char *failure = launch(messages_.at(calling_)))
      return failure;
  }
  return nullptr;
}

} // namespace isthmus::cuda

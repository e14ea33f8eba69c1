#include "runtime/device_transport.h"

#include "ir/diagnostics.h"
#include "runtime/channel.h"
#include "runtime/patience.h"
#include "llvm/ADT/STLExtras.h"
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <new>
#include <optional>

namespace isthmus {
namespace {

// Tags of the host's messages between two ends: those that go with the data and those that go
// against it. The copies of CopiesChannel have a tag of their own.
constexpr int64_t kWithData = kMostTags, kAgainstData = kMostTags + 1, kCopies = kMostTags + 2;

// What the ends tell each other. The first notice each way opens the lane; the others are about
// messages, and a message is known by its tag: those with equal tags come in order.
struct Notice {
  int64_t tag = 0, bytes = 0;
  char id[384] = {}; // of the channel, a text; empty: none
};

// Goes through the host's memory.
class CopiesChannel : public Channel {
public:
  CopiesChannel(Device &device, Transport &host, std::string other, bool sends)
      : device_(device), host_(host), other_(std::move(other)), sends_(sends) {}

  llvm::Expected<std::string> makeId() override { return std::string(); }
  llvm::Expected<bool> open(llvm::StringRef) override { return true; }
  llvm::Expected<bool> isOpen() override { return true; }
  llvm::Error post(uint64_t) override { return llvm::Error::success(); }

  llvm::Error start(uint64_t message, char *data, int64_t bytes) override {
    Copy copy{data, bytes, std::unique_ptr<char[]>(new (std::nothrow) char[size_t(bytes)]), 0};
    if (!copy.onHost)
      return makeError(ErrorKind::OutOfMemory,
                       "out of memory: {0:F1} MiB asked for, to copy a message between devices",
                       double(bytes) / 1048576);
    if (sends_)
      if (llvm::Error e = device_.read(copy.onHost.get(), data, bytes))
        return e;
    auto number = sends_ ? host_.isend(other_, kCopies, copy.onHost.get(), bytes)
                         : host_.irecv(other_, kCopies, copy.onHost.get(), bytes);
    if (!number)
      return number.takeError();
    copy.number = *number;
    copies_.emplace(message, std::move(copy));
    return llvm::Error::success();
  }

  llvm::Expected<bool> isDone(uint64_t message) override {
    const auto it = copies_.find(message);
    auto isDone = host_.test(it->second.number);
    if (!isDone || !*isDone)
      return isDone;
    const Copy copy = std::move(it->second);
    copies_.erase(it);
    if (!sends_)
      if (llvm::Error e = device_.write(copy.data, copy.onHost.get(), copy.bytes))
        return e;
    return true;
  }

private:
  struct Copy {
    char *data; // in the device's memory
    int64_t bytes;
    std::unique_ptr<char[]> onHost;
    uint64_t number; // of the host's message
  };
  Device &device_;
  Transport &host_;
  const std::string other_;
  const bool sends_;
  std::map<uint64_t, Copy> copies_;
};

// Messages of one direction between this end and another one.
class Lane {
public:
  Lane(Device &device, Transport &host, llvm::StringRef other, bool sends)
      : device_(device), host_(host), other_(other.str()), sends_(sends) {}

  // Must be called once, before anything else.
  llvm::Error begin() {
    if (llvm::Error e = device_.newChannel(sends_).moveInto(channel_))
      return e;
    if (sends_) {
      Notice hello;
      if (channel_) {
        if (llvm::Error e = channel_->makeId().moveInto(id_))
          return e;
        std::memcpy(hello.id, id_.data(), std::min(id_.size(), sizeof hello.id - 1));
      }
      if (llvm::Error e = tell(hello))
        return e;
    }
    return expect();
  }

  llvm::Error add(uint64_t message, int64_t tag, char *data, int64_t bytes) {
    messages_.emplace(message, Message{tag, data, bytes});
    waiting_[tag].push_back(message);
    if (channel_)
      if (llvm::Error e = channel_->post(message))
        return e;
    if (!sends_ && hasGreeted_)
      if (llvm::Error e = tell({tag, bytes}))
        return e;
    return expect();
  }

  // Does what can be done at once.
  llvm::Error advance() {
    if (llvm::Error e = dropWhatWasTold())
      return e;
    if (llvm::Error e = isOpening_ ? open() : hear())
      return e;
    if (isOpening_ || !hasGreeted_)
      return llvm::Error::success();
    if (llvm::Error e = startReady())
      return e;
    return endMoved();
  }

  // Of a message that was added and not yet taken.
  bool isDone(uint64_t message) const { return messages_.at(message).isDone; }
  llvm::Error take(uint64_t message) {
    const std::string error = std::move(messages_.at(message).error);
    messages_.erase(message);
    return error.empty() ? llvm::Error::success() : makeError("{0}", error);
  }

  void close() { channel_.reset(); }

private:
  struct Message {
    int64_t tag;
    char *data;
    int64_t bytes;
    bool isDone = false;
    std::string error = {};
  };
  struct Post { // of the host
    Notice notice;
    uint64_t number = 0;
  };

  llvm::Error tell(const Notice &notice) {
    told_.push_back(std::make_unique<Post>(Post{notice}));
    Post &post = *told_.back();
    return host_.isend(other_, sends_ ? kWithData : kAgainstData, &post.notice, sizeof(Notice))
        .moveInto(post.number);
  }
  llvm::Error expect() {
    expected_.push_back(std::make_unique<Post>());
    Post &post = *expected_.back();
    return host_.irecv(other_, sends_ ? kAgainstData : kWithData, &post.notice, sizeof(Notice))
        .moveInto(post.number);
  }

  llvm::Error dropWhatWasTold() {
    while (!told_.empty()) {
      auto isDone = host_.test(told_.front()->number);
      if (!isDone)
        return isDone.takeError();
      if (!*isDone)
        break;
      told_.pop_front();
    }
    return llvm::Error::success();
  }

  llvm::Error hear() {
    while (!expected_.empty() && !isOpening_) {
      auto isDone = host_.test(expected_.front()->number);
      if (!isDone)
        return isDone.takeError();
      if (!*isDone)
        break;
      const Notice notice = expected_.front()->notice;
      expected_.pop_front();
      if (llvm::Error e = hasGreeted_ ? heard(notice) : greeted(notice))
        return e;
    }
    return llvm::Error::success();
  }

  // The end that receives opens the channel that it hears of, or says that it cannot. The other one
  // opens it when it hears that.
  llvm::Error greeted(const Notice &notice) {
    hasGreeted_ = isOpening_ = true;
    bool hasChannel = channel_ && notice.id[0];
    if (hasChannel)
      if (llvm::Error e = channel_->open(sends_ ? id_ : notice.id).moveInto(hasChannel))
        return e;
    if (!sends_) {
      Notice answer;
      answer.id[0] = hasChannel;
      if (llvm::Error e = tell(answer))
        return e;
      for (const auto &[number, m] : messages_)
        if (llvm::Error e = tell({m.tag, m.bytes}))
          return e;
    }
    if (!hasChannel)
      channel_ = std::make_unique<CopiesChannel>(device_, host_, other_, sends_);
    return open();
  }

  llvm::Error open() {
    auto isOpen = channel_->isOpen();
    if (!isOpen)
      return isOpen.takeError();
    isOpening_ = !*isOpen;
    return llvm::Error::success();
  }

  // The other end is ready for a message, or has started one.
  llvm::Error heard(const Notice &notice) {
    if (sends_) {
      ready_.push_back({notice.tag, notice.bytes});
      return llvm::Error::success();
    }
    return start(notice.tag, notice.bytes);
  }

  // Starts what the other end is ready for and this one has.
  llvm::Error startReady() {
    for (size_t i = 0; i < ready_.size();) {
      const auto [tag, bytes] = ready_[i];
      const auto own = waiting_.find(tag);
      if (own == waiting_.end() || own->second.empty()) {
        ++i;
        continue;
      }
      ready_.erase(ready_.begin() + ptrdiff_t(i));
      if (llvm::Error e = tell({tag, messages_.at(own->second.front()).bytes}))
        return e;
      if (llvm::Error e = start(tag, bytes))
        return e;
    }
    return llvm::Error::success();
  }

  // Starts the first message of this tag, of which the other end has so many bytes.
  llvm::Error start(int64_t tag, int64_t bytesThere) {
    std::deque<uint64_t> &own = waiting_[tag];
    const uint64_t message = own.front();
    own.pop_front();
    Message &m = messages_.at(message);
    if (m.bytes != bytesThere) {
      m.error = llvm::formatv("a message of {0} bytes was sent where {1} are received",
                              sends_ ? m.bytes : bytesThere, sends_ ? bytesThere : m.bytes)
                    .str();
      m.isDone = true;
      return llvm::Error::success();
    }
    m.isDone = m.bytes == 0;
    if (m.isDone)
      return llvm::Error::success();
    moving_.push_back(message);
    return channel_->start(message, m.data, m.bytes);
  }

  llvm::Error endMoved() {
    while (!moving_.empty()) {
      auto isDone = channel_->isDone(moving_.front());
      if (!isDone)
        return isDone.takeError();
      if (!*isDone)
        break;
      messages_.at(moving_.front()).isDone = true;
      moving_.pop_front();
    }
    return llvm::Error::success();
  }

  Device &device_;
  Transport &host_;
  const std::string other_;
  const bool sends_;
  std::unique_ptr<Channel> channel_;
  std::string id_; // of the channel, at the end that sends
  bool hasGreeted_ = false, isOpening_ = false;
  std::deque<std::unique_ptr<Post>> told_, expected_; // by the host, under way
  std::map<uint64_t, Message> messages_;
  std::map<int64_t, std::deque<uint64_t>> waiting_; // to be started, by tag
  std::vector<std::pair<int64_t, int64_t>> ready_;  // tag and bytes, at the end that sends
  std::deque<uint64_t> moving_;
};

class DeviceTransport : public Transport {
public:
  DeviceTransport(Device &device, std::unique_ptr<Transport> host)
      : device_(device), host_(std::move(host)) {}

  llvm::Expected<uint64_t> isend(llvm::StringRef to, int64_t tag, const void *data,
                                 int64_t bytes) override {
    return add(to, /*sends=*/true, tag, const_cast<void *>(data), bytes);
  }
  llvm::Expected<uint64_t> irecv(llvm::StringRef from, int64_t tag, void *data,
                                 int64_t bytes) override {
    return add(from, /*sends=*/false, tag, data, bytes);
  }

  llvm::Error wait(uint64_t message) override {
    const auto start = std::chrono::steady_clock::now();
    Patience patience;
    llvm::Expected<bool> isDone = test(message);
    for (; isDone && !*isDone; isDone = test(message))
      patience.pause();
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return isDone.takeError();
  }

  llvm::Expected<bool> test(uint64_t message) override {
    const auto it = laneOf_.find(message);
    if (it == laneOf_.end())
      return true; // was waited for
    if (llvm::Error e = progress())
      return e;
    Lane &lane = *it->second;
    if (!lane.isDone(message))
      return false;
    laneOf_.erase(it);
    if (llvm::Error e = lane.take(message))
      return e;
    return true;
  }

  // A failure stays: later calls return it again.
  llvm::Error progress() override {
    if (!failure_)
      fail(advance());
    return failure_ ? llvm::make_error<DiagError>(*failure_) : llvm::Error::success();
  }

  void abort(llvm::StringRef why) override {
    host_->abort(why);
    fail(host_->progress());
  }

  double takeWaited() override { return std::exchange(waited_, 0); }

private:
  llvm::Expected<uint64_t> add(llvm::StringRef other, bool sends, int64_t tag, void *data,
                               int64_t bytes) {
    std::unique_ptr<Lane> &lane = lanes_[{other.str(), sends}];
    if (!lane) {
      auto made = std::make_unique<Lane>(device_, *host_, other, sends);
      if (llvm::Error e = made->begin())
        return e;
      lane = std::move(made);
    }
    const uint64_t message = next_++;
    if (llvm::Error e = lane->add(message, tag, static_cast<char *>(data), bytes))
      return e;
    laneOf_[message] = lane.get();
    llvm::consumeError(progress()); // the next wait finds it again
    return message;
  }

  llvm::Error advance() {
    llvm::Error e = host_->progress();
    for (auto it = lanes_.begin(); !e && it != lanes_.end(); ++it)
      e = it->second->advance();
    return e;
  }

  // After an error nothing moves into memory that is given back.
  void fail(llvm::Error error) {
    llvm::handleAllErrors(std::move(error), [&](const DiagError &e) {
      failure_ = e;
      for (auto &[ends, lane] : lanes_)
        lane->close();
    });
  }

  Device &device_;
  std::unique_ptr<Transport> host_;
  std::map<std::pair<std::string, bool>, std::unique_ptr<Lane>>
      lanes_;                         // by the other end and sends
  std::map<uint64_t, Lane *> laneOf_; // of messages that were not taken
  uint64_t next_ = 1;
  std::optional<DiagError> failure_;
  double waited_ = 0;
};

} // namespace

std::unique_ptr<Transport> makeDeviceTransport(Device &device, std::unique_ptr<Transport> host) {
  return std::make_unique<DeviceTransport>(device, std::move(host));
}

} // namespace isthmus

#include "runtime/thread_transport.h"

#include "ir/diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

namespace isthmus {
namespace {

// One end of a message that was started.
struct Half {
  const void *from = nullptr; // of a send
  void *to = nullptr;         // of a receive
  int64_t bytes = 0;
  bool isDone = false;
  std::string error;
};

// The halves that wait for their other half, of all devices.
struct Exchange {
  explicit Exchange(std::vector<std::string> devices) : devices(std::move(devices)) {}

  const std::vector<std::string> devices;
  std::mutex mutex;
  std::condition_variable changed;
  struct Key {
    size_t from, to;
    int64_t tag;
    friend bool operator<(const Key &a, const Key &b) {
      return std::tie(a.from, a.to, a.tag) < std::tie(b.from, b.to, b.tag);
    }
  };
  std::map<Key, std::deque<std::shared_ptr<Half>>> sends, receives;
  std::string aborted; // why; empty: not
};

class ThreadEnd : public Transport {
public:
  ThreadEnd(std::shared_ptr<Exchange> exchange, size_t self)
      : x_(std::move(exchange)), self_(self) {}

  llvm::Expected<uint64_t> isend(llvm::StringRef to, int64_t tag, const void *data,
                                 int64_t bytes) override {
    auto other = numberOf(to);
    if (!other)
      return other.takeError();
    auto half = std::make_shared<Half>();
    half->from = data;
    half->bytes = bytes;
    return start({self_, *other, tag}, std::move(half), x_->sends, x_->receives);
  }

  llvm::Expected<uint64_t> irecv(llvm::StringRef from, int64_t tag, void *data,
                                 int64_t bytes) override {
    auto other = numberOf(from);
    if (!other)
      return other.takeError();
    auto half = std::make_shared<Half>();
    half->to = data;
    half->bytes = bytes;
    return start({*other, self_, tag}, std::move(half), x_->receives, x_->sends);
  }

  llvm::Error wait(uint64_t message) override {
    const auto it = started_.find(message);
    if (it == started_.end())
      return llvm::Error::success(); // was waited for
    const std::shared_ptr<Half> half = std::move(it->second);
    started_.erase(it);
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock<std::mutex> lock(x_->mutex);
    x_->changed.wait(lock, [&] { return half->isDone || !x_->aborted.empty(); });
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return errorOf(*half);
  }

  llvm::Expected<bool> test(uint64_t message) override {
    const auto it = started_.find(message);
    if (it == started_.end())
      return true;
    std::lock_guard<std::mutex> lock(x_->mutex);
    if (!it->second->isDone && x_->aborted.empty())
      return false;
    const std::shared_ptr<Half> half = std::move(it->second);
    started_.erase(it);
    if (llvm::Error e = errorOf(*half))
      return e;
    return true;
  }

  llvm::Error progress() override {
    std::lock_guard<std::mutex> lock(x_->mutex);
    return x_->aborted.empty() ? llvm::Error::success() : makeError("{0}", x_->aborted);
  }

  void abort(llvm::StringRef why) override {
    std::lock_guard<std::mutex> lock(x_->mutex);
    if (x_->aborted.empty())
      x_->aborted = why.str();
    x_->changed.notify_all();
  }

  double takeWaited() override { return std::exchange(waited_, 0); }

private:
  using Waiting = std::map<Exchange::Key, std::deque<std::shared_ptr<Half>>>;

  // Of a half that is done, or of a transport that was aborted. Requires the lock.
  llvm::Error errorOf(const Half &half) const {
    if (!half.error.empty())
      return makeError("{0}", half.error);
    return half.isDone ? llvm::Error::success() : makeError("{0}", x_->aborted);
  }

  llvm::Expected<size_t> numberOf(llvm::StringRef device) const {
    const auto it = llvm::find(x_->devices, device);
    if (it == x_->devices.end())
      return makeError("a message goes to or comes from '{0}', which is no device of this step",
                       device);
    return size_t(it - x_->devices.begin());
  }

  // The half that comes second copies, outside of the lock.
  uint64_t start(const Exchange::Key &key, std::shared_ptr<Half> half, Waiting &own,
                 Waiting &others) {
    std::shared_ptr<Half> other;
    {
      std::lock_guard<std::mutex> lock(x_->mutex);
      if (auto it = others.find(key); it != others.end()) {
        other = std::move(it->second.front());
        it->second.pop_front();
        if (it->second.empty())
          others.erase(it);
      } else {
        own[key].push_back(half);
      }
    }
    if (other)
      complete(*half, *other);
    started_[next_] = std::move(half);
    return next_++;
  }

  void complete(Half &a, Half &b) {
    const Half &send = a.from ? a : b, &receive = a.from ? b : a;
    std::string error;
    if (send.bytes != receive.bytes)
      error = llvm::formatv("a message of {0} bytes was sent where {1} are received", send.bytes,
                            receive.bytes)
                  .str();
    else if (send.bytes > 0)
      std::memcpy(receive.to, send.from, size_t(send.bytes));
    std::lock_guard<std::mutex> lock(x_->mutex);
    a.isDone = b.isDone = true;
    a.error = b.error = error;
    x_->changed.notify_all();
  }

  const std::shared_ptr<Exchange> x_;
  const size_t self_;
  uint64_t next_ = 1;
  std::map<uint64_t, std::shared_ptr<Half>> started_;
  double waited_ = 0;
};

} // namespace

std::vector<std::unique_ptr<Transport>>
makeThreadTransport(const std::vector<std::string> &devices) {
  auto exchange = std::make_shared<Exchange>(devices);
  std::vector<std::unique_ptr<Transport>> ends;
  for (size_t i = 0; i < devices.size(); ++i)
    ends.push_back(std::make_unique<ThreadEnd>(exchange, i));
  return ends;
}

} // namespace isthmus

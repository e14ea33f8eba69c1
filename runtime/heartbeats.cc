#include "runtime/heartbeats.h"

#include "llvm/ADT/STLExtras.h"
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <random>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace isthmus {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kInterval{250};
constexpr milliseconds kOwnPause{1500}; // a thread that wakes later than that was stopped itself
constexpr uint32_t kMostWatched = 8;    // so that many processes send few datagrams

// Where a process listens. Sent as it is.
struct Place {
  std::array<char, 256> host = {};
  std::array<in_addr_t, 4> addresses = {}; // of IPv4; 0: none
  in_port_t port = 0;                      // 0: it does not listen
  uint64_t key = 0;                        // the first process's is that of the group
};

struct Beat {
  uint64_t key;
  uint32_t rank;
};

// Of the interfaces that lead to other hosts.
std::array<in_addr_t, 4> ownAddresses() {
  std::array<in_addr_t, 4> out = {};
  ifaddrs *all = nullptr;
  if (::getifaddrs(&all) != 0)
    return out;
  size_t count = 0;
  for (const ifaddrs *i = all; i && count < out.size(); i = i->ifa_next)
    if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
        !(i->ifa_flags & IFF_LOOPBACK))
      out[count++] = reinterpret_cast<const sockaddr_in *>(i->ifa_addr)->sin_addr.s_addr;
  ::freeifaddrs(all);
  return out;
}

class Beating : public Heartbeats {
public:
  explicit Beating(ProcessGroup &group) : rank_(group.rank()), size_(group.size()) {}
  ~Beating() override {
    isOver_ = true;
    if (thread_.joinable())
      thread_.join();
    if (socket_ >= 0)
      ::close(socket_);
  }

  llvm::Error begin(ProcessGroup &group) {
    Place own;
    group.host().copy(own.host.data(), own.host.size() - 1);
    own.addresses = ownAddresses();
    own.port = listen();
    own.key = (uint64_t(std::random_device()()) << 32) | std::random_device()();
    std::vector<Place> all(size_);
    if (llvm::Error e = group.allGather(&own, sizeof own, all.data()))
      return e;
    key_ = all[0].key;
    for (uint32_t k = 1; k <= std::min(kMostWatched, size_ - 1); ++k)
      addTargets(all[(rank_ + k) % size_], own);
    if (socket_ >= 0)
      startThread();
    return llvm::Error::success();
  }

  void setDeadline(std::chrono::seconds deadline) override { deadline_ = deadline.count(); }
  std::chrono::seconds deadline() const override { return std::chrono::seconds(deadline_); }
  std::optional<uint32_t> silentRank() const override {
    const int64_t rank = silent_;
    return rank < 0 ? std::nullopt : std::optional<uint32_t>(uint32_t(rank));
  }

private:
  in_port_t listen() {
    socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    socklen_t length = sizeof at;
    if (socket_ >= 0 && ::bind(socket_, reinterpret_cast<sockaddr *>(&at), length) == 0 &&
        ::getsockname(socket_, reinterpret_cast<sockaddr *>(&at), &length) == 0)
      return at.sin_port;
    if (socket_ >= 0)
      ::close(socket_);
    socket_ = -1;
    return 0;
  }

  void addTargets(const Place &other, const Place &own) {
    if (other.port == 0)
      return;
    if (other.host == own.host)
      addTarget(htonl(INADDR_LOOPBACK), other.port);
    for (in_addr_t address : other.addresses)
      if (address)
        addTarget(address, other.port);
  }
  void addTarget(in_addr_t address, in_port_t port) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = address;
    to.sin_port = port;
    targets_.push_back(to);
  }

  // Signals are for the thread that runs the command.
  void startThread() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run() {
    std::vector<Clock::time_point> heard(size_); // by rank; the epoch: never
    Clock::time_point last = Clock::now();
    while (!isOver_) {
      send();
      pollfd wake = {socket_, POLLIN, 0};
      const Clock::time_point next = last + kInterval;
      while (Clock::now() < next && !isOver_)
        if (::poll(&wake, 1, int(kInterval.count())) > 0)
          hear(heard);
      const Clock::time_point now = Clock::now();
      hear(heard);
      if (now - last > kOwnPause)
        for (Clock::time_point &at : heard)
          if (at != Clock::time_point())
            at = now;
      last = now;
      judge(heard, now);
    }
  }

  void send() {
    const Beat beat{key_, rank_};
    for (const sockaddr_in &to : targets_)
      (void)::sendto(socket_, &beat, sizeof beat, 0, reinterpret_cast<const sockaddr *>(&to),
                     sizeof to);
  }

  void hear(std::vector<Clock::time_point> &heard) {
    Beat beat;
    while (::recv(socket_, &beat, sizeof beat, 0) == ssize_t(sizeof beat))
      if (beat.key == key_ && beat.rank < size_)
        heard[beat.rank] = Clock::now();
  }

  void judge(llvm::ArrayRef<Clock::time_point> heard, Clock::time_point now) {
    int64_t silent = -1;
    const std::chrono::seconds deadline(deadline_);
    for (uint32_t rank = 0; deadline.count() > 0 && rank < size_; ++rank)
      if (heard[rank] != Clock::time_point() && now - heard[rank] > deadline)
        silent = rank;
    silent_ = silent;
  }

  const uint32_t rank_, size_;
  uint64_t key_ = 0;
  int socket_ = -1;
  std::vector<sockaddr_in> targets_;
  std::atomic<int64_t> deadline_{kUsualDeadline.count()}, silent_{-1};
  std::atomic<bool> isOver_{false};
  std::thread thread_;
};

} // namespace

llvm::Expected<std::unique_ptr<Heartbeats>> Heartbeats::start(ProcessGroup &group) {
  auto beats = std::make_unique<Beating>(group);
  if (llvm::Error e = beats->begin(group))
    return e;
  return beats;
}

} // namespace isthmus

#include "runtime/mpi_group.h"

#include "ir/diagnostics.h"
#include "runtime/heartbeats.h"
#include "runtime/mpi_library.h"
#include "runtime/patience.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <map>
#include <unistd.h>

namespace isthmus {
namespace {

using Clock = std::chrono::steady_clock;

// MPI counts elements as int, so that large messages go in pieces. (Pieces between the same two
// processes with the same tag arrive in order.)
constexpr int64_t kPiece = int64_t(1) << 30;

// The largest tag is for the message that a process has come to its end.
constexpr int kEndTag = INT_MAX;
// How long a process that failed waits for others to fail too.
constexpr std::chrono::seconds kGrace(2);

// Calls piece(offset, bytes) for each piece; a message without bytes is one piece. Returns the
// first code that is no success.
template <typename Piece> int inPieces(int64_t bytes, Piece piece) {
  for (int64_t at = 0; at == 0 || at < bytes; at += kPiece)
    if (int code = piece(at, int(std::min(kPiece, bytes - at))))
      return code;
  return mpi::kSuccess;
}

class MpiGroup : public ProcessGroup {
public:
  explicit MpiGroup(const mpi::Library &library) : m_(library) {}

  llvm::Error join() {
    int level = 0;
    if (int code = m_.initThread(nullptr, nullptr, mpi::kFunneled, &level))
      return failed("MPI_Init_thread", code);
    m_.setErrorHandler(m_.world, m_.errorsReturn); // otherwise errors end the process
    int rank = 0, size = 0, length = 0;
    char name[mpi::kMostText + 1] = {};
    m_.commRank(m_.world, &rank);
    m_.commSize(m_.world, &size);
    m_.processorName(name, &length);
    rank_ = uint32_t(rank);
    size_ = uint32_t(size);
    host_.assign(name, size_t(length));
    if (llvm::Error e = countOnHost())
      return e;
    return Heartbeats::start(*this).moveInto(beats_);
  }

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }
  const std::string &host() const override { return host_; }
  uint32_t rankOnHost() const override { return rankOnHost_; }
  std::unique_ptr<Transport> transport(const std::vector<std::string> &devices) override;
  void setDeadline(std::chrono::seconds deadline) override { beats_->setDeadline(deadline); }

  llvm::Error broadcast(void *data, int64_t bytes, uint32_t root) override {
    llvm::SmallVector<mpi::Request, 1> requests;
    const int code = inPieces(bytes, [&](int64_t at, int count) {
      requests.push_back(nullptr);
      return m_.ibcast(static_cast<char *>(data) + at, count, m_.byte, int(root), m_.world,
                       &requests.back());
    });
    return finish("MPI_Ibcast", code, requests);
  }

  llvm::Error allGather(const void *own, int64_t bytes, void *all) override {
    llvm::SmallVector<mpi::Request, 1> requests(1);
    const int code =
        m_.iallgather(own, int(bytes), m_.byte, all, int(bytes), m_.byte, m_.world, &requests[0]);
    return finish("MPI_Iallgather", code, requests);
  }

  // Processes that all fail, such as by a wrong option, all come to their end, and the first one
  // writes its report before it does. If one fails alone, the others wait for it.
  void end(int exitCode) override {
    aborted_.clear();
    const bool haveAllEnded = waitForEnds(exitCode ? kGrace : std::chrono::seconds::max());
    if (haveAllEnded && !(exitCode && isLeftUnderWay_))
      m_.finalize();
    else if (exitCode)
      m_.abort(m_.world, exitCode);
  }

  const mpi::Library &library() const { return m_; }
  void setLeftUnderWay() { isLeftUnderWay_ = true; }
  void abort(llvm::StringRef why) {
    if (aborted_.empty())
      aborted_ = why.str();
  }

  llvm::Error failed(const char *call, int code) const {
    char text[mpi::kMostText + 1] = {};
    int length = 0;
    m_.errorString(code, text, &length);
    return makeError(ErrorKind::Device, "{0} failed: {1}", call,
                     llvm::StringRef(text, size_t(length)));
  }

  llvm::Error errorIfAborted() const {
    return aborted_.empty() ? llvm::Error::success() : makeError("{0}", aborted_);
  }

  llvm::Expected<bool> test(mpi::Request &request, mpi::Status &status) {
    if (llvm::Error e = errorIfAborted())
      return e;
    int isDone = 0;
    if (int code = m_.test(&request, &isDone, &status))
      return failed("MPI_Test", code);
    return isDone != 0;
  }

  // mpirun ends this process when another one has died; where mpirun itself has, or another process
  // hangs, nothing would.
  llvm::Error errorIfLeft() const {
    if (::getppid() != parent_)
      return makeError(ErrorKind::Device, "mpirun has ended, so no other process will answer");
    const auto silent = beats_ ? beats_->silentRank() : std::nullopt;
    if (!silent)
      return llvm::Error::success();
    return makeError(ErrorKind::Device,
                     "rank {0} on {1} has given no sign of life for {2} seconds: it is stopped, or "
                     "its host cannot be reached; --deadline=SECONDS says how long to wait for "
                     "that, and 0 for ever",
                     *silent, hosts_[*silent], beats_->deadline().count());
  }

  // Waits until the request is complete.
  llvm::Error complete(
      mpi::Request &request, mpi::Status &status,
      llvm::function_ref<bool()> isLate = [] { return false; }) {
    Patience patience;
    while (true) {
      auto isDone = test(request, status);
      if (!isDone)
        return isDone.takeError();
      if (*isDone)
        return llvm::Error::success();
      if (llvm::Error e = patience.isAsleep() ? errorIfLeft() : llvm::Error::success())
        return e;
      if (isLate())
        return makeError(ErrorKind::Device, "another process does not answer");
      patience.pause();
    }
  }

private:
  llvm::Error countOnHost() {
    using Name = std::array<char, mpi::kMostText>;
    Name own = {};
    host_.copy(own.data(), own.size() - 1);
    std::vector<Name> all(size_);
    if (llvm::Error e = allGather(own.data(), own.size(), all.data()))
      return e;
    rankOnHost_ = uint32_t(std::count(all.begin(), all.begin() + rank_, own));
    for (const Name &name : all)
      hosts_.emplace_back(name.data());
    return llvm::Error::success();
  }

  // Whether all processes have come to their end, within `most`.
  bool waitForEnds(std::chrono::seconds most) {
    std::vector<mpi::Request> requests;
    for (uint32_t other = 0; other < size_; ++other) {
      if (other == rank_)
        continue;
      requests.resize(requests.size() + 2);
      mpi::Request *two = &requests[requests.size() - 2];
      if (m_.isend(nullptr, 0, m_.byte, int(other), kEndTag, m_.world, &two[0]) ||
          m_.irecv(nullptr, 0, m_.byte, int(other), kEndTag, m_.world, &two[1]))
        return false;
    }
    const auto start = Clock::now();
    auto isLate = [&] {
      return most != std::chrono::seconds::max() && Clock::now() - start > most;
    };
    for (mpi::Request &r : requests) {
      mpi::Status status = {};
      if (llvm::Error e = complete(r, status, isLate)) {
        llvm::consumeError(std::move(e));
        return false;
      }
    }
    return true;
  }

  llvm::Error finish(const char *call, int code, llvm::MutableArrayRef<mpi::Request> requests) {
    if (code)
      return failed(call, code);
    for (mpi::Request &r : requests) {
      mpi::Status status = {};
      if (llvm::Error e = complete(r, status))
        return e;
    }
    return llvm::Error::success();
  }

  const mpi::Library &m_;
  uint32_t rank_ = 0, size_ = 1, rankOnHost_ = 0;
  std::string host_;
  std::vector<std::string> hosts_;    // by rank
  std::unique_ptr<Heartbeats> beats_; // null while joining
  std::string aborted_;               // why; empty: not
  bool isLeftUnderWay_ = false;       // a message that was not waited for
  const pid_t parent_ = ::getppid();
};

class MpiEnd : public Transport {
public:
  MpiEnd(MpiGroup &group, std::vector<std::string> devices)
      : group_(group), m_(group.library()), devices_(std::move(devices)) {}
  ~MpiEnd() override {
    if (!started_.empty())
      group_.setLeftUnderWay();
  }

  llvm::Expected<uint64_t> isend(llvm::StringRef to, int64_t tag, const void *data,
                                 int64_t bytes) override {
    return start("MPI_Isend", to, tag, bytes,
                 [&](int rank, int64_t at, int count, mpi::Request *r) {
                   return m_.isend(static_cast<const char *>(data) + at, count, m_.byte, rank,
                                   int(tag), m_.world, r);
                 });
  }

  llvm::Expected<uint64_t> irecv(llvm::StringRef from, int64_t tag, void *data,
                                 int64_t bytes) override {
    return start("MPI_Irecv", from, tag, bytes,
                 [&](int rank, int64_t at, int count, mpi::Request *r) {
                   return m_.irecv(static_cast<char *>(data) + at, count, m_.byte, rank, int(tag),
                                   m_.world, r);
                 });
  }

  llvm::Error wait(uint64_t message) override {
    const auto start = Clock::now();
    Patience patience;
    llvm::Expected<bool> isDone = test(message);
    for (; isDone && !*isDone; isDone = test(message)) {
      if (llvm::Error e = patience.isAsleep() ? group_.errorIfLeft() : llvm::Error::success())
        return e;
      patience.pause();
    }
    waited_ += std::chrono::duration<double>(Clock::now() - start).count();
    return isDone.takeError();
  }

  llvm::Expected<bool> test(uint64_t message) override {
    const auto it = started_.find(message);
    if (it == started_.end())
      return true; // was waited for
    Message &m = it->second;
    for (; m.numDone < m.pieces.size(); ++m.numDone) {
      mpi::Status status = {};
      auto isDone = group_.test(m.pieces[m.numDone], status);
      if (!isDone) {
        started_.erase(it);
        return isDone.takeError();
      }
      if (!*isDone)
        return false;
      int count = 0;
      if (m.isReceive)
        m_.getCount(&status, m_.byte, &count);
      m.received += count;
    }
    const Message own = std::move(m);
    started_.erase(it);
    if (own.isReceive && own.received != own.bytes)
      return makeError("a message of {0} bytes was sent where {1} are received", own.received,
                       own.bytes);
    return true;
  }

  llvm::Error progress() override {
    int isThere = 0; // a probe, whatever it finds, moves all messages
    m_.iprobe(mpi::kAnySource, kEndTag, m_.world, &isThere, nullptr);
    if (llvm::Error e = group_.errorIfAborted())
      return e;
    return group_.errorIfLeft();
  }

  void abort(llvm::StringRef why) override { group_.abort(why); }
  double takeWaited() override { return std::exchange(waited_, 0); }

private:
  struct Message {
    bool isReceive;
    int64_t bytes;
    llvm::SmallVector<mpi::Request, 1> pieces; // complete in this order
    size_t numDone = 0;
    int64_t received = 0; // by those
  };

  template <typename Piece>
  llvm::Expected<uint64_t> start(const char *call, llvm::StringRef other, int64_t tag,
                                 int64_t bytes, Piece piece) {
    const auto it = llvm::find(devices_, other);
    if (it == devices_.end())
      return makeError("a message goes to or comes from '{0}', which is no device of this step",
                       other);
    if (tag >= kEndTag)
      return makeError(ErrorKind::Unsupported, "a message has the tag {0}, and MPI's end at {1}",
                       tag, kEndTag - 1);
    const int rank = int(it - devices_.begin());
    Message m{.isReceive = llvm::StringRef(call) == "MPI_Irecv", .bytes = bytes};
    const int code = inPieces(bytes, [&](int64_t at, int count) {
      m.pieces.push_back(nullptr);
      return piece(rank, at, count, &m.pieces.back());
    });
    if (code)
      return group_.failed(call, code);
    started_.emplace(next_, std::move(m));
    return next_++;
  }

  MpiGroup &group_;
  const mpi::Library &m_;
  const std::vector<std::string> devices_;
  uint64_t next_ = 1;
  std::map<uint64_t, Message> started_;
  double waited_ = 0;
};

std::unique_ptr<Transport> MpiGroup::transport(const std::vector<std::string> &devices) {
  return std::make_unique<MpiEnd>(*this, devices);
}

} // namespace

// How many processes mpirun says that it started; 1 without mpirun.
static uint32_t startedTogether() {
  const char *size = std::getenv("OMPI_COMM_WORLD_SIZE");
  uint32_t number = 0;
  return size && !llvm::StringRef(size).getAsInteger(10, number) && number > 0 ? number : 1;
}

bool isOneOfSeveral() { return startedTogether() > 1; }

llvm::Expected<std::unique_ptr<ProcessGroup>> joinMpiGroup() {
  auto library = mpi::load();
  if (!library)
    return library.takeError();
  auto group = std::make_unique<MpiGroup>(**library);
  if (llvm::Error e = group->join())
    return e;
  if (group->size() != startedTogether()) // each process would take itself for the first
    return makeError(ErrorKind::Device,
                     "mpirun started {0} processes, and OpenMPI's library finds {1}: it is of "
                     "another installation than mpirun; name mpirun's own {2} in "
                     "ISTHMUS_MPI_LIBRARY",
                     startedTogether(), group->size(), mpi::kLibrary);
  return group;
}

} // namespace isthmus

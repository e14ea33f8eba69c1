#include "ir/system_limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sched.h>
#include <sstream>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace isthmus {
namespace {

std::string mebibytes(int64_t bytes) {
  return llvm::formatv("{0:F1} MiB", double(bytes) / (1 << 20)).str();
}

// The whole of a small file of the system; empty if it cannot be read.
std::string contentsOf(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> linesOf(const std::string &path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  return lines;
}

// The number that a file holds; nothing for other words, such as "max".
std::optional<int64_t> numberIn(const std::string &path) {
  int64_t number = 0;
  if (llvm::StringRef(contentsOf(path)).trim().getAsInteger(10, number))
    return std::nullopt;
  return number;
}

// The number behind `key` in lines of a key and a number each, such as "MemAvailable:  8 kB".
std::optional<int64_t> numberBehind(llvm::StringRef key, const std::string &path) {
  for (const std::string &line : linesOf(path)) {
    llvm::StringRef rest = line;
    int64_t number = 0;
    if (rest.consume_front(key) && !rest.ltrim(": ").consumeInteger(10, number))
      return number;
  }
  return std::nullopt;
}

// A group that a controller (memory, cpu) holds this process in, or one around it.
struct ControlGroup {
  std::string folder, name;
  bool isUnified; // of version 2
};

// A line of /proc/self/mountinfo (proc_pid_mountinfo(5)): the folder of the file system that is
// mounted, where, and what it is.
struct Mount {
  llvm::StringRef root, point, type, options;
};

std::optional<Mount> mountIn(llvm::StringRef line) {
  auto [place, system] = line.split(" - ");
  llvm::SmallVector<llvm::StringRef, 8> fields, kinds;
  place.split(fields, ' ');
  system.split(kinds, ' ');
  if (fields.size() < 5 || kinds.size() < 3)
    return std::nullopt;
  return Mount{fields[3], fields[4], kinds[0], kinds[2]};
}

bool lists(llvm::StringRef options, llvm::StringRef word) {
  llvm::SmallVector<llvm::StringRef, 8> words;
  options.split(words, ',');
  return llvm::is_contained(words, word);
}

// The path of the process's group in the hierarchy of a controller (cgroups(7)): in the line
// "4:cpu,memory:/path", or "0::/path" of version 2.
std::optional<std::string> groupPath(llvm::StringRef controller, const std::string &root) {
  for (const std::string &line : linesOf(root + "/proc/self/cgroup")) {
    const llvm::StringRef controllers = llvm::StringRef(line).split(':').second.split(':').first;
    if (controller.empty() ? controllers.empty() : lists(controllers, controller))
      return llvm::StringRef(line).split(':').second.split(':').second.str();
  }
  return std::nullopt;
}

// The groups that bound what the process takes of a controller, from its own outwards. In a
// container the outermost is the container's, at whose folder the hierarchy is mounted.
std::vector<ControlGroup> groupsOf(llvm::StringRef controller, const std::string &root) {
  std::vector<ControlGroup> groups;
  for (const std::string &line : linesOf(root + "/proc/self/mountinfo")) {
    const std::optional<Mount> m = mountIn(line);
    if (!m)
      continue;
    const bool isUnified = m->type == "cgroup2";
    if (!isUnified && (m->type != "cgroup" || !lists(m->options, controller)))
      continue;
    const std::optional<std::string> path = groupPath(isUnified ? "" : controller, root);
    if (!path)
      continue;
    // A path outside of what is mounted is one that the container does not see.
    llvm::StringRef below = *path;
    if ((m->root != "/" && !below.consume_front(m->root)) || !below.startswith("/"))
      below = "";
    for (below = below.rtrim('/');; below = below.rsplit('/').first) {
      groups.push_back(
          {root + m->point.str() + below.str(), below.empty() ? "/" : below.str(), isUnified});
      if (below.empty())
        break;
    }
  }
  return groups;
}

// What a group may still take, and its limit. The pages of files that it has read count as its own
// until they are needed.
AvailableMemory memoryOf(const ControlGroup &group) {
  const std::string at = group.folder + "/memory.";
  const auto limit = numberIn(at + (group.isUnified ? "max" : "limit_in_bytes"));
  const auto used = numberIn(at + (group.isUnified ? "current" : "usage_in_bytes"));
  if (!limit || !used)
    return {};
  const std::string total = group.isUnified ? "" : "total_";
  int64_t files = 0;
  for (const char *pages : {"inactive_file", "active_file"})
    files += numberBehind(total + pages, at + "stat").value_or(0);
  return {std::max<int64_t>(*limit - (*used - std::min(files, *used)), 0),
          llvm::formatv("the control group '{0}' may have {1}", group.name, mebibytes(*limit))};
}

// What the address space may still grow (ulimit -v).
AvailableMemory memoryOfAddressSpace(const std::string &root) {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return {};
  const int64_t pages = numberBehind("", root + "/proc/self/statm").value_or(0);
  const auto most = int64_t(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
  return {std::max<int64_t>(most - pages * sysconf(_SC_PAGESIZE), 0),
          llvm::formatv("the process may have {0}: ulimit -v", mebibytes(most))};
}

// The cores that a group has time for; nothing if that is not limited.
std::optional<double> coresOf(const ControlGroup &group) {
  double quota = 0, period = 0; // microseconds
  if (group.isUnified) {
    std::istringstream(contentsOf(group.folder + "/cpu.max")) >> quota >> period; // or "max"
  } else {
    quota = double(numberIn(group.folder + "/cpu.cfs_quota_us").value_or(-1));
    period = double(numberIn(group.folder + "/cpu.cfs_period_us").value_or(0));
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

} // namespace

std::string AvailableMemory::str() const {
  return mebibytes(bytes) + " available" + (limit.empty() ? "" : " (" + limit + ")");
}

AvailableMemory availableMemory(int64_t promised, llvm::StringRef root) {
  AvailableMemory least;
  auto bound = [&](AvailableMemory by) {
    if (by.bytes < least.bytes)
      least = std::move(by);
  };
  if (auto kib = numberBehind("MemAvailable", root.str() + "/proc/meminfo"))
    bound({*kib * 1024, ""});
  for (const ControlGroup &group : groupsOf("memory", root.str()))
    bound(memoryOf(group));
  if (least.bytes < INT64_MAX)
    least.bytes = std::max<int64_t>(least.bytes - promised, 0);
  bound(memoryOfAddressSpace(root.str())); // which has grown by what was promised
  return least;
}

int availableCores(llvm::StringRef root) {
  cpu_set_t set;
  int cores = sched_getaffinity(0, sizeof set, &set) == 0
                  ? CPU_COUNT(&set)
                  : int(std::thread::hardware_concurrency());
  for (const ControlGroup &group : groupsOf("cpu", root.str()))
    if (const std::optional<double> share = coresOf(group))
      cores = std::min(cores, int(std::ceil(std::min(*share, 1e6))));
  return std::max(cores, 1);
}

} // namespace isthmus

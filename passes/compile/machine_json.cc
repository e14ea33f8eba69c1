#include "passes/compile/machine_json.h"

#include "ir/file.h"
#include "ir/json.h"
#include "ir/spelling.h"
#include "passes/compile/budget.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {
namespace {

constexpr const char *kSchema = "isthmus.machine/1";

llvm::Expected<double> numberIn(const nlohmann::json &j, const std::string &what, double least) {
  if (!j.is_number() || !(j.get<double>() >= least && j.get<double>() <= 1e12))
    return makeError("expected a number from {0} to 1e12 for {1}, got {2}", least, what,
                     jsonText(j));
  return j.get<double>();
}

llvm::Expected<int64_t> bytesIn(const nlohmann::json &j, const std::string &what) {
  if (j.is_number_integer() && j.get<double>() > 0 && j.get<double>() < 0x1p62)
    return j.get<int64_t>();
  if (j.is_string())
    if (auto size = parseBudget(j.get<std::string>());
        size && size->kind == Budget::Bytes && size->bytes > 0)
      return size->bytes;
  return makeError("expected bytes, or a size such as \"24GB\", for {0}, got {1}", what,
                   jsonText(j));
}

// Errors: a key that has no meaning here.
llvm::Error checkKeys(const nlohmann::json &j, const std::string &what,
                      llvm::ArrayRef<llvm::StringRef> known) {
  if (!j.is_object())
    return makeError("expected an object for {0}, got {1}", what, jsonText(j));
  for (const auto &[key, value] : j.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return makeError("{0} has no \"{1}\"; it has {2}", what, key, llvm::join(known, ", "));
  return llvm::Error::success();
}

llvm::Error readLink(const nlohmann::json &j, const std::string &what, LinkTimes &link) {
  if (j.contains("bandwidth")) {
    auto rate = bytesIn(j["bandwidth"], what + "'s bandwidth, in a second");
    if (!rate)
      return rate.takeError();
    link.bytesPerSecond = double(*rate);
  }
  if (j.contains("latency_us")) {
    auto latency = numberIn(j["latency_us"], what + "'s latency_us", 0);
    if (!latency)
      return latency.takeError();
    link.latencySeconds = *latency * 1e-6;
  }
  return llvm::Error::success();
}

llvm::Expected<Machine::Device> readDevice(const nlohmann::json &j, size_t number) {
  const std::string what = "device " + std::to_string(number);
  if (llvm::Error e = checkKeys(j, what, {"name", "memory", "speed"}))
    return e;
  Machine::Device d;
  if (!j.contains("name") || !j["name"].is_string() || !isDeviceName(j["name"].get<std::string>()))
    return makeError("expected a name such as \"gpu:0\" for {0}, got {1}", what,
                     j.contains("name") ? jsonText(j["name"]) : "none");
  d.name = j["name"];
  if (j.contains("memory")) {
    auto bytes = bytesIn(j["memory"], what + "'s memory");
    if (!bytes)
      return bytes.takeError();
    d.memoryBytes = *bytes;
  }
  if (j.contains("speed")) {
    auto speed = numberIn(j["speed"], what + "'s speed", 1e-6);
    if (!speed)
      return speed.takeError();
    d.speed = *speed;
  }
  return d;
}

llvm::Expected<const Machine::Device *> readEnd(const nlohmann::json &j, const char *key,
                                                const Machine &m) {
  const auto it = j.find(key);
  const Machine::Device *d =
      it != j.end() && it->is_string() ? m.find(it->get_ref<const std::string &>()) : nullptr;
  if (!d)
    return makeError("expected a device of the list for a link's \"{0}\", got {1}", key,
                     it != j.end() ? jsonText(*it) : "none");
  return d;
}

// A link that is named twice is the last one. A direction that is not named is as the other one.
llvm::Error readLinks(const nlohmann::json &list, Machine &m) {
  struct Link {
    const Machine::Device *from, *to;
    LinkTimes times;
  };
  std::vector<Link> links;
  for (const nlohmann::json &j : list) {
    if (llvm::Error e = checkKeys(j, "a link", {"from", "to", "bandwidth", "latency_us"}))
      return e;
    auto from = readEnd(j, "from", m);
    if (!from)
      return from.takeError();
    auto to = readEnd(j, "to", m);
    if (!to)
      return to.takeError();
    LinkTimes times = m.link;
    if (llvm::Error e = readLink(j, "the link from " + (*from)->name + " to " + (*to)->name, times))
      return e;
    links.push_back({*from, *to, times});
  }
  for (const Link &l : llvm::reverse(links))
    m.addLink(*l.from, *l.to, l.times);
  for (const Link &l : llvm::reverse(links))
    m.addLink(*l.to, *l.from, l.times);
  return llvm::Error::success();
}

} // namespace

llvm::Expected<Machine> parseMachine(llvm::StringRef text) {
  constexpr int kDepth = 4;
  auto json = parseJson(text, kDepth);
  if (!json)
    return json.takeError();
  if (llvm::Error e = checkKeys(*json, "the machine", {"schema", "devices", "link", "links"}))
    return e;
  if (!json->contains("schema") || (*json)["schema"] != kSchema || !json->contains("devices") ||
      !(*json)["devices"].is_array() || (*json)["devices"].empty())
    return makeError("expected a machine, with \"schema\": \"{0}\" and a list of \"devices\"",
                     kSchema);
  Machine m;
  for (const nlohmann::json &j : (*json)["devices"]) {
    auto device = readDevice(j, m.devices().size());
    if (!device)
      return device.takeError();
    if (!m.add(*device))
      return makeError("two devices are named '{0}'", device->name);
  }
  if (json->contains("link")) {
    if (llvm::Error e = checkKeys((*json)["link"], "the link", {"bandwidth", "latency_us"}))
      return e;
    if (llvm::Error e = readLink((*json)["link"], "the link", m.link))
      return e;
  }
  if (json->contains("links") && !(*json)["links"].is_array())
    return makeError("expected a list for \"links\", got {0}", jsonText((*json)["links"]));
  if (json->contains("links"))
    if (llvm::Error e = readLinks((*json)["links"], m))
      return e;
  return m;
}

llvm::Expected<Machine> readMachine(const std::string &path) {
  auto file = readFile(path);
  if (!file)
    return file.takeError();
  auto machine = parseMachine((*file)->getBuffer());
  if (!machine)
    return makeError("{0}: {1}", path, plainMessage(machine.takeError()));
  return machine;
}

} // namespace isthmus

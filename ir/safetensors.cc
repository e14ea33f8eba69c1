#include "ir/safetensors.h"

#include "ir/check.h"
#include "ir/diagnostics.h"
#include "ir/file.h"
#include "ir/json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/xxhash.h"

namespace isthmus {
namespace {

using Json = nlohmann::json;

constexpr std::pair<llvm::StringRef, DType> kDTypes[] = {
    {"F32", DType::F32}, {"F64", DType::F64}, {"BF16", DType::BF16}, {"F16", DType::F16},
    {"I32", DType::I32}, {"I64", DType::I64}, {"U8", DType::U8},     {"BOOL", DType::Bool}};

llvm::StringRef nameOf(DType t) {
  return llvm::find_if(kDTypes, [&](const auto &each) { return each.second == t; })->first;
}
const std::pair<llvm::StringRef, DType> *byName(llvm::StringRef name) {
  const auto *found = llvm::find_if(kDTypes, [&](const auto &each) { return each.first == name; });
  return found == std::end(kDTypes) ? nullptr : found;
}

constexpr uint64_t kMostHeaderBytes = 100'000'000; // the format's own limit
constexpr int kHeaderDepth = 3;                    // the header, an entry, its list of numbers

template <typename... Args>
llvm::Error broken(llvm::StringRef path, const char *format, Args &&...args) {
  return makeError("'{0}' is no safetensors file: {1}", path,
                   llvm::formatv(format, std::forward<Args>(args)...).str());
}

bool isSize(const Json &j) {
  return j.is_number_unsigned() && j.get<uint64_t>() <= uint64_t(INT64_MAX);
}

// Reads one entry of the header; checks it by itself and against the number of data bytes.
llvm::Expected<Safetensors::Entry> readEntry(llvm::StringRef path, const std::string &name,
                                             const Json &j, uint64_t dataBytes) {
  Safetensors::Entry e;
  e.name = name;
  if (!j.is_object() || !j.contains("dtype") || !j["dtype"].is_string() || !j.contains("shape") ||
      !j["shape"].is_array() || !j.contains("data_offsets") || !j["data_offsets"].is_array() ||
      j["data_offsets"].size() != 2)
    return broken(path, "tensor '{0}' lacks dtype, shape or two data_offsets", name);
  e.dtype = j["dtype"].get<std::string>();
  for (const Json &d : j["shape"]) {
    if (!isSize(d))
      return broken(path, "tensor '{0}' has a size that is no integer from 0 to 2^63-1", name);
    e.dims.push_back(d.get<int64_t>());
  }
  const Json &offsets = j["data_offsets"];
  if (!isSize(offsets[0]) || !isSize(offsets[1]))
    return broken(path, "tensor '{0}' has offsets that are no integers from 0 to 2^63-1", name);
  e.begin = offsets[0].get<uint64_t>();
  e.end = offsets[1].get<uint64_t>();
  if (e.begin > e.end || e.end > dataBytes)
    return broken(path, "tensor '{0}' lies at [{1}, {2}) of {3} bytes", name, e.begin, e.end,
                  dataBytes);
  if (const auto *known = byName(e.dtype)) {
    Type type(known->second, e.dims);
    if (!type.isValid())
      return broken(path, "tensor '{0}' has a type of over 2^60 bytes", name);
    if (uint64_t(type.bytes()) != e.end - e.begin)
      return broken(path, "tensor '{0}' is {1}, which takes {2} bytes, but has {3}", name,
                    type.str(), type.bytes(), e.end - e.begin);
  }
  return e;
}

// Checks that each byte belongs to exactly one tensor, as the format requires: no hidden and no
// shared bytes.
llvm::Error checkIsCovered(llvm::StringRef path, llvm::ArrayRef<Safetensors::Entry> entries,
                           uint64_t dataBytes) {
  std::vector<const Safetensors::Entry *> order;
  for (const Safetensors::Entry &e : entries)
    order.push_back(&e);
  llvm::sort(order, [](const Safetensors::Entry *a, const Safetensors::Entry *b) {
    return std::tie(a->begin, a->end) < std::tie(b->begin, b->end);
  });
  uint64_t at = 0;
  for (const Safetensors::Entry *e : order) {
    if (e->begin != at)
      return broken(path, "tensor '{0}' lies at [{1}, {2}), and was expected to begin at {3}: {4}",
                    e->name, e->begin, e->end, at,
                    e->begin < at ? "it overlaps another" : "there is a hole before it");
    at = e->end;
  }
  if (at != dataBytes)
    return broken(path, "its tensors end at byte {0} of {1}; nothing may come after them", at,
                  dataBytes);
  return llvm::Error::success();
}

} // namespace

llvm::Expected<Safetensors> Safetensors::open(llvm::StringRef path) {
  if (llvm::sys::fs::is_regular_file(path)) {
    auto file = SourceFile::open(path);
    if (!file)
      return file.takeError();
    return parse(std::move(*file), path);
  }
  auto bytes = readFile(path); // of a pipe
  if (!bytes)
    return bytes.takeError();
  return parse(SourceFile::of(std::move(*bytes), path), path);
}

llvm::Expected<Safetensors> Safetensors::parse(std::shared_ptr<const SourceFile> source,
                                               llvm::StringRef path) {
  char length[8];
  if (source->size() < sizeof length)
    return broken(path, "expected a length of 8 bytes, got a file of {0}", source->size());
  if (llvm::Error e = source->read(0, length))
    return e;
  const uint64_t headerBytes = llvm::support::endian::read64le(length);
  if (headerBytes > source->size() - sizeof length)
    return broken(path, "expected a header of {0} bytes, got {1} in the file", headerBytes,
                  source->size() - sizeof length);
  if (headerBytes > kMostHeaderBytes)
    return broken(path, "expected a header of at most {0} bytes, got {1}", kMostHeaderBytes,
                  headerBytes);
  std::string header(size_t(headerBytes), '\0');
  if (llvm::Error e = source->read(sizeof length, {header.data(), header.size()}))
    return e;
  auto parsed = parseJson(header, kHeaderDepth);
  if (!parsed)
    return broken(path, "its header is no JSON object: {0}", plainMessage(parsed.takeError()));
  if (!parsed->is_object())
    return broken(path, "its header is no JSON object");

  Safetensors file;
  file.path_ = path.str();
  file.dataStart_ = sizeof length + headerBytes;
  const uint64_t dataBytes = source->size() - file.dataStart_;
  for (const auto &[name, value] : parsed->items()) {
    if (name == "__metadata__") {
      for (const auto &[key, text] : value.items())
        if (text.is_string())
          file.metadata_[key] = text.template get<std::string>();
      continue;
    }
    auto entry = readEntry(path, name, value, dataBytes);
    if (!entry)
      return entry.takeError();
    file.entries_.push_back(std::move(*entry));
  }
  if (llvm::Error e = checkIsCovered(path, file.entries_, dataBytes))
    return e;
  llvm::sort(file.entries_, [](const Entry &a, const Entry &b) { return a.name < b.name; });
  file.file_ = std::move(source);
  return file;
}

llvm::Expected<Tensor> Safetensors::find(llvm::StringRef name) const {
  auto e = llvm::lower_bound(entries_, name,
                             [](const Entry &a, llvm::StringRef n) { return a.name < n; });
  if (e == entries_.end() || e->name != name) {
    std::vector<llvm::StringRef> known;
    for (const Entry &each : entries_)
      known.push_back(each.name);
    return makeError("'{0}' has no tensor '{1}'{2}", path_, name, didYouMean(name, known));
  }
  const auto *dtype = byName(e->dtype);
  if (!dtype)
    return makeError("tensor '{0}' of '{1}' has elements of '{2}'; expected F32, F64, BF16, F16, "
                     "I32, I64, U8 or "
                     "BOOL",
                     name, path_, e->dtype);
  return read_.at(*file_, Type(dtype->second, e->dims), dataStart_ + e->begin);
}

namespace {

// The tensors in the order of the file.
std::vector<const NamedTensor *> inOrder(llvm::ArrayRef<NamedTensor> tensors) {
  std::vector<const NamedTensor *> order;
  for (const NamedTensor &t : tensors)
    order.push_back(&t);
  llvm::sort(order, [](const NamedTensor *a, const NamedTensor *b) {
    int64_t x = dtypeBytes(a->tensor.type.dtype), y = dtypeBytes(b->tensor.type.dtype);
    return x != y ? x > y : a->name < b->name;
  });
  return order;
}

llvm::StringRef bytesOf(const Tensor &t) {
  return llvm::StringRef(t.data, static_cast<size_t>(t.bytes()));
}

// Written by hand, because a JSON object would sort the names, and the data has another order.
std::string headerOf(llvm::ArrayRef<const NamedTensor *> order,
                     const std::map<std::string, std::string> &metadata) {
  std::string header = "{\"__metadata__\":" + jsonText(Json(metadata));
  uint64_t at = 0;
  llvm::StringSet<> names;
  for (const NamedTensor *t : order) {
    const Type &type = t->tensor.type;
    ISTHMUS_CHECK(names.insert(t->name).second, "two tensors named '" + t->name + "'");
    Json entry = {{"dtype", nameOf(type.dtype).str()},
                  {"shape", std::vector<int64_t>(type.dims.begin(), type.dims.end())},
                  {"data_offsets", {at, at + uint64_t(type.bytes())}}};
    header += "," + jsonText(Json(t->name)) + ":" + jsonText(entry);
    at += uint64_t(type.bytes());
  }
  header += "}";
  header.resize((header.size() + 8 + 63) / 64 * 64 - 8, ' '); // trailing spaces align the data
  return header;
}

} // namespace

namespace {

// The tensor's part of the text whose hash is the file's digest.
std::string digestPart(llvm::StringRef name, const Tensor &t) {
  std::string part;
  for (const std::string &text : {name.str(), t.type.str()})
    part += std::to_string(text.size()) + ":" + text;
  return part + llvm::utohexstr(llvm::xxHash64(bytesOf(t))) + ";";
}
std::string digestOfParts(const std::string &parts) {
  return llvm::formatv("{0:x-16}", llvm::xxHash64(parts)).str();
}

} // namespace

std::string digestOf(llvm::ArrayRef<NamedTensor> tensors) {
  std::string parts;
  for (const NamedTensor *t : inOrder(tensors))
    parts += digestPart(t->name, t->tensor);
  return digestOfParts(parts);
}

llvm::Error Safetensors::checkDigest() const {
  const auto recorded = metadata_.find(kDigestKey);
  if (recorded == metadata_.end())
    return llvm::Error::success();
  std::vector<NamedTensor> types; // without bytes
  for (const Entry &e : entries_)
    if (const auto *dtype = byName(e.dtype)) // we write no other types
      types.push_back({e.name, Tensor{Type(dtype->second, e.dims), nullptr, nullptr}});
  std::string parts;
  for (const NamedTensor *each : inOrder(types)) {
    auto t = find(each->name); // one at a time is in memory
    if (!t)
      return t.takeError();
    parts += digestPart(each->name, *t);
  }
  const std::string found = digestOfParts(parts);
  if (found == recorded->second)
    return llvm::Error::success();
  return makeError("'{0}' does not hold the tensors that were written to it: expected the digest "
                   "'{1}', found '{2}'; it was damaged, or changed by a tool that kept its "
                   "metadata; restore it from a copy, or remove '{3}' from its metadata to use it "
                   "as it is",
                   path_, recorded->second, found, kDigestKey);
}

llvm::Error printSafetensors(llvm::raw_ostream &os, llvm::StringRef path,
                             llvm::ArrayRef<NamedTensor> tensors,
                             std::map<std::string, std::string> metadata) {
  metadata[kDigestKey] = digestOf(tensors);
  std::vector<const NamedTensor *> order = inOrder(tensors);
  std::string header = headerOf(order, metadata);
  if (header.size() > kMostHeaderBytes)
    return makeError("cannot write '{0}': {1} tensors are more than a safetensors file may have",
                     path, tensors.size());
  char length[8];
  llvm::support::endian::write64le(length, header.size());
  os << llvm::StringRef(length, 8) << header;
  for (const NamedTensor *t : order)
    os << bytesOf(t->tensor);
  return llvm::Error::success();
}

llvm::Error writeSafetensors(llvm::StringRef path, llvm::ArrayRef<NamedTensor> tensors,
                             const std::map<std::string, std::string> &metadata) {
  return writeFileAtomically(path, [&](llvm::raw_pwrite_stream &os) {
    return printSafetensors(os, path, tensors, metadata);
  });
}

} // namespace isthmus

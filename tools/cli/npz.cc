// The zip format of PKWARE's APPNOTE 6.3.10, section 4.3, with the extension to 64 bits that numpy
// always writes (section 4.5.3).

#include "tools/cli/npz.h"

#include "ir/file.h"
#include "tools/cli/npy.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include <zlib.h>

namespace isthmus {
namespace {

using namespace llvm::support::endian;

constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kEntryBytes = 46,
                 kLocalBytes = 30, kLongestComment = 65535;
constexpr llvm::StringLiteral kEndMark("PK\5\6"), kEnd64Mark("PK\6\6"), kLocatorMark("PK\6\7"),
    kEntryMark("PK\1\2"), kLocalMark("PK\3\4");
constexpr unsigned kStored = 0, kDeflated = 8, kEncrypted = 1;
constexpr uint64_t kMostRatio = 1032; // deflate never compresses better than this

llvm::Error malformed() {
  return makeError("expected a .npz file, a zip archive of .npy files as numpy.savez writes them; "
                   "this is none, or is cut short");
}

// The part from `at` on; empty if the file is shorter.
llvm::StringRef from(llvm::StringRef file, uint64_t at) {
  return at <= file.size() ? file.drop_front(size_t(at)) : llvm::StringRef();
}

struct Directory {
  uint64_t entries, offset;
};

// Reads the record at the end of an archive, before a comment.
llvm::Expected<Directory> findDirectory(llvm::StringRef file) {
  const size_t first = file.size() - std::min(file.size(), kEndBytes + kLongestComment);
  const size_t at = file.drop_front(first).rfind(kEndMark);
  if (at == llvm::StringRef::npos || file.size() - first - at < kEndBytes)
    return malformed();
  const char *end = file.data() + first + at;
  Directory d{read16le(end + 10), read32le(end + 16)};
  if (d.entries != UINT16_MAX && d.offset != UINT32_MAX)
    return d;
  if (first + at < kLocatorBytes)
    return malformed();
  llvm::StringRef locator = file.slice(first + at - kLocatorBytes, first + at);
  llvm::StringRef end64 = from(file, read64le(locator.data() + 8));
  if (!locator.startswith(kLocatorMark) || !end64.startswith(kEnd64Mark) ||
      end64.size() < kEnd64Bytes)
    return malformed();
  return Directory{read64le(end64.data() + 32), read64le(end64.data() + 48)};
}

// Reads the numbers that do not fit into 32 bits; they are in an extra field, in this order.
bool readWideNumbers(llvm::StringRef extra, llvm::ArrayRef<uint64_t *> numbers) {
  while (extra.size() >= 4) {
    const unsigned id = read16le(extra.data()), bytes = read16le(extra.data() + 2);
    llvm::StringRef field = extra.drop_front(4).take_front(bytes);
    extra = extra.drop_front(std::min<size_t>(extra.size(), 4 + bytes));
    if (id != 1)
      continue;
    for (uint64_t *number : numbers) {
      if (*number != UINT32_MAX)
        continue;
      if (field.size() < 8)
        return false;
      *number = read64le(field.data());
      field = field.drop_front(8);
    }
  }
  return llvm::none_of(numbers, [](const uint64_t *n) { return *n == UINT32_MAX; });
}

using Buffer = std::shared_ptr<const llvm::MemoryBuffer>;

// A view of a part of a file, which it keeps alive.
Buffer partOf(const Buffer &file, llvm::StringRef part) {
  auto view = llvm::MemoryBuffer::getMemBuffer(part, "", /*RequiresNullTerminator=*/false);
  return Buffer(view.release(), [file](const llvm::MemoryBuffer *b) { delete b; });
}

// Null if `packed` is not a deflate stream of that many bytes.
std::unique_ptr<llvm::WritableMemoryBuffer> inflated(llvm::StringRef packed, uint64_t bytes) {
  auto out = llvm::WritableMemoryBuffer::getNewUninitMemBuffer(size_t(bytes));
  z_stream z = {};
  if (!out || inflateInit2(&z, -MAX_WBITS) != Z_OK) // negative: without zlib's own header
    return nullptr;
  int state = Z_OK;
  // zlib counts in 32 bits.
  auto refill = [](uInt &left, uint64_t rest) { left = uInt(std::min<uint64_t>(rest, 1u << 30)); };
  uint64_t in = 0, made = 0;
  while (state == Z_OK) {
    z.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(packed.data() + in));
    z.next_out = reinterpret_cast<Bytef *>(out->getBufferStart() + made);
    refill(z.avail_in, packed.size() - in);
    refill(z.avail_out, bytes - made);
    const uInt hadIn = z.avail_in, hadOut = z.avail_out;
    state = inflate(&z, Z_NO_FLUSH);
    in += hadIn - z.avail_in;
    made += hadOut - z.avail_out;
    if (state == Z_OK && hadIn == z.avail_in && hadOut == z.avail_out)
      state = Z_BUF_ERROR;
  }
  inflateEnd(&z);
  return state == Z_STREAM_END && made == bytes ? std::move(out) : nullptr;
}

uint32_t crcOf(llvm::StringRef bytes) {
  return uint32_t(crc32_z(0, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

} // namespace

llvm::Expected<Npz> Npz::open(const std::string &path) {
  auto file = readRegularFile(path);
  if (!file)
    return file.takeError();
  return parse(std::move(*file), path);
}

llvm::Expected<Npz> Npz::parse(Buffer bytes, const std::string &path) {
  Npz out;
  out.path_ = path;
  out.bytes_ = std::move(bytes);
  if (llvm::Error e = out.readDirectory())
    return locate(std::move(e), path);
  return out;
}

std::vector<llvm::StringRef> Npz::names() const {
  std::vector<llvm::StringRef> out;
  for (const auto &[name, member] : members_)
    out.push_back(name);
  return out;
}

llvm::Error Npz::readDirectory() {
  llvm::StringRef file = bytes_->getBuffer();
  auto directory = findDirectory(file);
  if (!directory)
    return directory.takeError();
  llvm::StringRef rest = from(file, directory->offset);
  for (uint64_t i = 0; i < directory->entries; ++i)
    if (llvm::Error e = readMember(rest))
      return e;
  return llvm::Error::success();
}

// Reads one entry and removes it from `directory`.
llvm::Error Npz::readMember(llvm::StringRef &directory) {
  if (directory.size() < kEntryBytes || !directory.startswith(kEntryMark))
    return malformed();
  const char *entry = directory.data();
  const size_t nameBytes = read16le(entry + 28), extraBytes = read16le(entry + 30),
               commentBytes = read16le(entry + 32);
  if (directory.size() < kEntryBytes + nameBytes + extraBytes + commentBytes)
    return malformed();
  Member m{.method = read16le(entry + 10),
           .flags = read16le(entry + 8),
           .crc = read32le(entry + 16),
           .packedBytes = read32le(entry + 20),
           .bytes = read32le(entry + 24),
           .header = read32le(entry + 42)};
  llvm::StringRef name = directory.substr(kEntryBytes, nameBytes);
  if (!readWideNumbers(directory.substr(kEntryBytes + nameBytes, extraBytes),
                       {&m.bytes, &m.packedBytes, &m.header}))
    return malformed();
  directory = directory.drop_front(kEntryBytes + nameBytes + extraBytes + commentBytes);
  if (name.consume_back(".npy") && !members_.try_emplace(name.str(), m).second)
    return makeError("the archive has two arrays '{0}'", name);
  return llvm::Error::success();
}

llvm::Expected<llvm::StringRef> Npz::packed(const Member &m) const {
  llvm::StringRef local = from(bytes_->getBuffer(), m.header);
  if (local.size() < kLocalBytes || !local.startswith(kLocalMark))
    return malformed();
  const size_t skipped =
      kLocalBytes + read16le(local.data() + 26) + size_t(read16le(local.data() + 28));
  if (local.size() < skipped || local.size() - skipped < m.packedBytes)
    return malformed();
  return local.substr(skipped, size_t(m.packedBytes));
}

llvm::Expected<Buffer> Npz::contents(const Member &m) const {
  if (m.flags & kEncrypted)
    return makeError("expected a file that is not encrypted");
  auto bytes = packed(m);
  if (!bytes)
    return bytes.takeError();
  Buffer out;
  if (m.method == kStored && m.bytes == m.packedBytes)
    out = partOf(bytes_, *bytes);
  else if (m.method == kDeflated && m.bytes / kMostRatio <= m.packedBytes)
    out = inflated(*bytes, m.bytes);
  else if (m.method != kStored && m.method != kDeflated)
    return makeError("expected a file that is stored or deflated, got method {0}", m.method);
  if (!out || crcOf(out->getBuffer()) != m.crc)
    return makeError("its bytes are not those that were written; the archive is damaged");
  return out;
}

llvm::Expected<Tensor> Npz::find(llvm::StringRef name) const {
  auto bytes = contents(members_.at(name.str()));
  const std::string where = path_ + ": " + name.str();
  if (!bytes)
    return locate(bytes.takeError(), where);
  auto t = parseNpy(std::move(*bytes));
  if (!t)
    return locate(t.takeError(), where);
  return t;
}

} // namespace isthmus

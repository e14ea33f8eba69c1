// The zip format of PKWARE's APPNOTE 6.3.10, section 4.3, with the extension to 64 bits that numpy
// always writes (section 4.5.3).

#include "tools/cli/npz.h"

#include "ir/file.h"
#include "ir/host_memory.h"
#include "tools/cli/npy.h"
#include "llvm/ADT/ScopeExit.h"
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

// The bytes of the file at [at, at + count); an error if the file is shorter.
llvm::Expected<std::string> part(const SourceFile &file, uint64_t at, uint64_t count) {
  if (at > file.size() || count > file.size() - at)
    return malformed();
  std::string bytes(size_t(count), '\0');
  if (llvm::Error e = file.read(at, {bytes.data(), bytes.size()}))
    return e;
  return bytes;
}

struct Directory {
  uint64_t entries, offset;
};

// Reads the record with 64-bit numbers, which the locator before the end names.
llvm::Expected<Directory> findWideDirectory(const SourceFile &file, llvm::StringRef locator) {
  if (!locator.startswith(kLocatorMark))
    return malformed();
  auto end = part(file, read64le(locator.data() + 8), kEnd64Bytes);
  if (!end)
    return end.takeError();
  if (!llvm::StringRef(*end).startswith(kEnd64Mark))
    return malformed();
  return Directory{read64le(end->data() + 32), read64le(end->data() + 48)};
}

// Reads the record at the end of an archive, before a comment.
llvm::Expected<Directory> findDirectory(const SourceFile &file) {
  const uint64_t most = kLocatorBytes + kEndBytes + kLongestComment,
                 count = std::min<uint64_t>(file.size(), most);
  auto tail = part(file, file.size() - count, count);
  if (!tail)
    return tail.takeError();
  const size_t at = llvm::StringRef(*tail).rfind(kEndMark);
  if (at == llvm::StringRef::npos || tail->size() - at < kEndBytes)
    return malformed();
  const char *end = tail->data() + at;
  const Directory d{read16le(end + 10), read32le(end + 16)};
  if (d.entries != UINT16_MAX && d.offset != UINT32_MAX)
    return d;
  if (at < kLocatorBytes)
    return malformed();
  return findWideDirectory(file, llvm::StringRef(end - kLocatorBytes, kLocatorBytes));
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

llvm::Expected<std::unique_ptr<llvm::WritableMemoryBuffer>> memoryFor(uint64_t bytes) {
  if (llvm::Error e = checkHostMemory(int64_t(std::min<uint64_t>(bytes, INT64_MAX))))
    return e;
  auto out = llvm::WritableMemoryBuffer::getNewUninitMemBuffer(size_t(bytes));
  if (!out)
    return makeError(ErrorKind::OutOfMemory, "out of memory: {0} bytes asked for", bytes);
  return out;
}

// Inflates [at, at + packedBytes) of the file to `bytes` bytes. Null if it is no deflate stream of
// that many.
llvm::Expected<Buffer> inflated(const SourceFile &file, uint64_t at, uint64_t packedBytes,
                                uint64_t bytes) {
  constexpr uint64_t kChunk = 1 << 20, kMostAtOnce = 1 << 30; // zlib counts in 32 bits
  auto memory = memoryFor(bytes);
  if (!memory)
    return memory.takeError();
  auto out = std::move(*memory);
  z_stream z = {};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) // negative: without zlib's own header
    return nullptr;
  auto end = llvm::make_scope_exit([&] { inflateEnd(&z); });
  std::string chunk;
  uint64_t in = 0, made = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    if (z.avail_in == 0) {
      auto next = part(file, at + in, std::min(kChunk, packedBytes - in));
      if (!next)
        return next.takeError();
      chunk = std::move(*next);
      in += chunk.size();
      z.next_in = reinterpret_cast<Bytef *>(chunk.data());
      z.avail_in = uInt(chunk.size());
    }
    z.next_out = reinterpret_cast<Bytef *>(out->getBufferStart() + made);
    z.avail_out = uInt(std::min(kMostAtOnce, bytes - made));
    const uInt hadIn = z.avail_in, hadOut = z.avail_out;
    state = inflate(&z, Z_NO_FLUSH);
    made += hadOut - z.avail_out;
    if (state == Z_OK && hadIn == z.avail_in && hadOut == z.avail_out)
      state = Z_BUF_ERROR;
  }
  if (state != Z_STREAM_END || made != bytes)
    return nullptr;
  return Buffer(std::move(out));
}

// The bytes [at, at + count) of the file.
llvm::Expected<Buffer> stored(const SourceFile &file, uint64_t at, uint64_t count) {
  auto out = memoryFor(count);
  if (!out)
    return out.takeError();
  if (llvm::Error e = file.read(at, {(*out)->getBufferStart(), size_t(count)}))
    return e;
  return Buffer(std::move(*out));
}

uint32_t crcOf(llvm::StringRef bytes) {
  return uint32_t(crc32_z(0, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

} // namespace

llvm::Expected<Npz> Npz::open(const std::string &path) {
  auto file = SourceFile::open(path);
  if (!file)
    return file.takeError();
  Npz out;
  out.file_ = std::move(*file);
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
  auto directory = findDirectory(*file_);
  if (!directory)
    return directory.takeError();
  uint64_t at = directory->offset;
  for (uint64_t i = 0; i < directory->entries; ++i)
    if (llvm::Error e = readMember(at))
      return e;
  return llvm::Error::success();
}

// Reads the entry at `at`, and sets `at` to the end of it.
llvm::Error Npz::readMember(uint64_t &at) {
  auto entry = part(*file_, at, kEntryBytes);
  if (!entry)
    return entry.takeError();
  if (!llvm::StringRef(*entry).startswith(kEntryMark))
    return malformed();
  const char *fields = entry->data();
  const size_t nameBytes = read16le(fields + 28), extraBytes = read16le(fields + 30),
               commentBytes = read16le(fields + 32);
  auto rest = part(*file_, at + kEntryBytes, nameBytes + extraBytes + commentBytes);
  if (!rest)
    return rest.takeError();
  Member m{.method = read16le(fields + 10),
           .flags = read16le(fields + 8),
           .crc = read32le(fields + 16),
           .packedBytes = read32le(fields + 20),
           .bytes = read32le(fields + 24),
           .header = read32le(fields + 42)};
  llvm::StringRef name = llvm::StringRef(*rest).take_front(nameBytes);
  if (!readWideNumbers(llvm::StringRef(*rest).substr(nameBytes, extraBytes),
                       {&m.bytes, &m.packedBytes, &m.header}))
    return malformed();
  at += kEntryBytes + rest->size();
  if (name.consume_back(".npy") && !members_.try_emplace(name.str(), m).second)
    return makeError("the archive has two arrays '{0}'", name);
  return llvm::Error::success();
}

llvm::Expected<Buffer> Npz::contents(const Member &m) const {
  if (m.flags & kEncrypted)
    return makeError("expected a file that is not encrypted");
  auto local = part(*file_, m.header, kLocalBytes);
  if (!local)
    return local.takeError();
  if (!llvm::StringRef(*local).startswith(kLocalMark))
    return malformed();
  const uint64_t at = m.header + kLocalBytes + read16le(local->data() + 26) +
                      uint64_t(read16le(local->data() + 28));
  if (at > file_->size() || m.packedBytes > file_->size() - at)
    return malformed();
  llvm::Expected<Buffer> out = nullptr;
  if (m.method == kStored && m.bytes == m.packedBytes)
    out = stored(*file_, at, m.bytes);
  else if (m.method == kDeflated && m.bytes / kMostRatio <= m.packedBytes)
    out = inflated(*file_, at, m.packedBytes, m.bytes);
  else if (m.method != kStored && m.method != kDeflated)
    return makeError("expected a file that is stored or deflated, got method {0}", m.method);
  if (out && (!*out || crcOf((*out)->getBuffer()) != m.crc))
    return makeError("its bytes are not those that were written; the archive is damaged");
  return out;
}

llvm::Expected<Tensor> Npz::find(llvm::StringRef name) const {
  auto bytes = contents(members_.at(name.str()));
  const std::string where = path() + ": " + name.str();
  if (!bytes)
    return locate(bytes.takeError(), where);
  auto t = parseNpy(std::move(*bytes));
  if (!t)
    return locate(t.takeError(), where);
  return t;
}

} // namespace isthmus

#include "tools/view/pickle.h"

#include "ir/diagnostics.h"
#include <cstring>
#include <limits>
#include <unordered_map>

namespace isthmus {

llvm::StringRef Pickle::kindText(Kind kind) {
  static constexpr llvm::StringRef kTexts[] = {"None",   "a truth value", "a number",    "a number",
                                               "a text", "a list",        "a dictionary"};
  return kTexts[size_t(kind)];
}

const Pickle::Ref *Pickle::find(Ref dict, llvm::StringRef key) const {
  if (kind(dict) != Kind::Dict)
    return nullptr;
  const std::vector<Ref> &all = items(dict);
  for (size_t i = all.size(); i >= 2; i -= 2)
    if (kind(all[i - 2]) == Kind::Text && text(all[i - 2]) == key)
      return &all[i - 1];
  return nullptr;
}

// The stack machine. Instructions are those of Python's Lib/pickle.py, by the same names.
class PickleReader {
public:
  explicit PickleReader(llvm::StringRef data) : data_(data) {}

  llvm::Expected<Pickle> run() {
    if (data_.size() < 2 || uint8_t(data_[0]) != 0x80)
      return makeError("expected a pickle of protocol 2 to 5, which begins with the byte 0x80");
    if (const unsigned protocol = uint8_t(data_[1]); protocol < 2 || protocol > 5)
      return makeError("expected a pickle of protocol 2 to 5, found protocol {0}", protocol);
    while (!isDone_)
      if (!step())
        return makeError("byte {0}: {1}", begin_, why_);
    return std::move(out_);
  }

private:
  using Ref = Pickle::Ref;
  using Kind = Pickle::Kind;
  static constexpr size_t kMostValues = std::numeric_limits<Ref>::max();

  bool fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  bool take(uint64_t size, llvm::StringRef &bytes) {
    if (size > data_.size() - at_)
      return fail("the pickle breaks off");
    bytes = data_.substr(at_, size);
    at_ += size;
    return true;
  }
  // A number without sign, its least significant byte first.
  bool number(unsigned size, uint64_t &n) {
    llvm::StringRef bytes;
    if (!take(size, bytes))
      return false;
    n = 0;
    for (unsigned i = size; i-- > 0;)
      n = n << 8 | uint8_t(bytes[i]);
    return true;
  }

  bool push(Pickle::Value v) {
    if (out_.values_.size() >= kMostValues)
      return fail("the pickle has too many values");
    stack_.push_back(Ref(out_.values_.size()));
    out_.values_.push_back(v);
    return true;
  }
  bool pushInt(int64_t n, Kind kind = Kind::Int) {
    Pickle::Value v{kind};
    v.number = n;
    return push(v);
  }
  bool pushList(Kind kind, std::vector<Ref> items = {}) {
    Pickle::Value v{kind};
    v.index = out_.lists_.size();
    out_.lists_.push_back(std::move(items));
    return push(v);
  }
  bool pushText(unsigned sizeBytes) {
    uint64_t size = 0;
    llvm::StringRef bytes;
    if (!number(sizeBytes, size) || !take(size, bytes))
      return false;
    Pickle::Value v{Kind::Text};
    v.index = out_.texts_.size();
    out_.texts_.push_back(bytes);
    return push(v);
  }
  bool pushFloat() {
    uint64_t bits = 0;
    llvm::StringRef bytes;
    if (!take(8, bytes))
      return false;
    for (char c : bytes)
      bits = bits << 8 | uint8_t(c);
    Pickle::Value v{Kind::Float};
    std::memcpy(&v.real, &bits, sizeof bits);
    return push(v);
  }
  // Two's complement, its least significant byte first. No bytes are 0.
  bool pushLong(unsigned sizeBytes) {
    uint64_t size = 0, n = 0;
    llvm::StringRef bytes;
    if (!number(sizeBytes, size) || !take(size, bytes))
      return false;
    while (bytes.size() > 1 && bytes.back() == '\0' && uint8_t(bytes[bytes.size() - 2]) < 0x80)
      bytes = bytes.drop_back();
    if (bytes.size() > 8)
      return fail("a number has more than 64 bits");
    if (!bytes.empty() && uint8_t(bytes.back()) >= 0x80)
      n = ~uint64_t(0);
    for (size_t i = bytes.size(); i-- > 0;)
      n = n << 8 | uint8_t(bytes[i]);
    return pushInt(int64_t(n));
  }

  // Takes what lies above the latest mark.
  bool popToMark(std::vector<Ref> &items) {
    if (marks_.empty() || marks_.back() > stack_.size())
      return fail("the pickle is not valid: no mark is set");
    items.assign(stack_.begin() + long(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return true;
  }
  bool popLast(size_t count, std::vector<Ref> &items) {
    if (stack_.size() < count + (marks_.empty() ? 0 : marks_.back()))
      return fail("the pickle is not valid: its stack is too short");
    items.assign(stack_.end() - long(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return true;
  }
  bool add(Kind kind, const std::vector<Ref> &items) {
    if (stack_.empty() || out_.kind(stack_.back()) != kind ||
        (kind == Kind::Dict && items.size() % 2 != 0))
      return fail("the pickle is not valid: items are for no " +
                  std::string(kind == Kind::Dict ? "dictionary" : "list"));
    std::vector<Ref> &all = out_.lists_[out_.values_[stack_.back()].index];
    all.insert(all.end(), items.begin(), items.end());
    return true;
  }
  bool remember(uint64_t name) {
    if (stack_.empty())
      return fail("the pickle is not valid: its stack is empty");
    memo_[name] = stack_.back();
    return true;
  }
  bool recall(uint64_t name) {
    const auto found = memo_.find(name);
    if (found == memo_.end())
      return fail("the pickle is not valid: it refers to a value that it does not have");
    stack_.push_back(found->second);
    return true;
  }

  bool step();
  bool stop() {
    if (stack_.size() != 1)
      return fail("the pickle is not valid: it ends with " + std::to_string(stack_.size()) +
                  " values");
    out_.root_ = stack_.back();
    return isDone_ = true;
  }

  const llvm::StringRef data_;
  size_t at_ = 0, begin_ = 0;
  std::vector<Ref> stack_;
  std::vector<size_t> marks_; // sizes of the stack
  std::unordered_map<uint64_t, Ref> memo_;
  bool isDone_ = false;
  std::string why_;
  Pickle out_;
};

bool PickleReader::step() {
  begin_ = at_;
  uint64_t op = 0, n = 0;
  std::vector<Ref> items;
  if (!number(1, op))
    return false;
  switch (uint8_t(op)) {
  case 0x80: // PROTO
    return number(1, n);
  case 0x95: // FRAME
    return number(8, n);
  case '.': // STOP
    return stop();
  case '(': // MARK
    marks_.push_back(stack_.size());
    return true;
  case '0': // POP
    return popLast(1, items);
  case '1': // POP_MARK
    return popToMark(items);
  case 'N': // NONE
    return push({});
  case 0x88: // NEWTRUE
  case 0x89: // NEWFALSE
    return pushInt(op == 0x88, Kind::Bool);
  case 'K': // BININT1
    return number(1, n) && pushInt(int64_t(n));
  case 'M': // BININT2
    return number(2, n) && pushInt(int64_t(n));
  case 'J': // BININT
    return number(4, n) && pushInt(int32_t(uint32_t(n)));
  case 0x8a: // LONG1
    return pushLong(1);
  case 0x8b: // LONG4
    return pushLong(4);
  case 'G': // BINFLOAT
    return pushFloat();
  case 0x8c: // SHORT_BINUNICODE
  case 'U':  // SHORT_BINSTRING
  case 'C':  // SHORT_BINBYTES
    return pushText(1);
  case 'X': // BINUNICODE
  case 'T': // BINSTRING
  case 'B': // BINBYTES
    return pushText(4);
  case 0x8d: // BINUNICODE8
  case 0x8e: // BINBYTES8
    return pushText(8);
  case ']': // EMPTY_LIST
  case ')': // EMPTY_TUPLE
    return pushList(Kind::List);
  case '}': // EMPTY_DICT
    return pushList(Kind::Dict);
  case 'l': // LIST
  case 't': // TUPLE
    return popToMark(items) && pushList(Kind::List, std::move(items));
  case 'd': // DICT
    return popToMark(items) && pushList(Kind::Dict) && add(Kind::Dict, items);
  case 0x85: // TUPLE1
  case 0x86: // TUPLE2
  case 0x87: // TUPLE3
    return popLast(op - 0x84, items) && pushList(Kind::List, std::move(items));
  case 'a': // APPEND
    return popLast(1, items) && add(Kind::List, items);
  case 'e': // APPENDS
    return popToMark(items) && add(Kind::List, items);
  case 's': // SETITEM
    return popLast(2, items) && add(Kind::Dict, items);
  case 'u': // SETITEMS
    return popToMark(items) && add(Kind::Dict, items);
  case 0x94: // MEMOIZE
    return remember(memo_.size());
  case 'q': // BINPUT
    return number(1, n) && remember(n);
  case 'r': // LONG_BINPUT
    return number(4, n) && remember(n);
  case 'h': // BINGET
    return number(1, n) && recall(n);
  case 'j': // LONG_BINGET
    return number(4, n) && recall(n);
  default:
    return fail(llvm::formatv("instruction 0x{0:x-2} makes no data, but an object or a call; "
                              "dictionaries, lists, texts and numbers are read, and nothing is run",
                              op)
                    .str());
  }
}

llvm::Expected<Pickle> Pickle::parse(llvm::StringRef data) { return PickleReader(data).run(); }

} // namespace isthmus

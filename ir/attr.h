// Attributes of nodes: small constants that are parameters of an op.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace isthmus {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

// The order of the alternatives is that of AttrKind.
using Attr = std::variant<bool, int64_t, double, std::string, Ints, Floats>;
enum class AttrKind : uint8_t { Bool, Int, Float, String, IntList, FloatList };

inline AttrKind kindOf(const Attr &a) { return static_cast<AttrKind>(a.index()); }
llvm::StringRef attrKindName(AttrKind k); // "bool", "int", "float", "string", "int list", ...

// The spelling in the text form: `true`, `3`, `0.5`, `"text"` or a bare word, `[1, 2]` and so on.
// Floats take the shortest form that reads back to the same bits and always carry a `.`, `e`, `inf`
// or `nan`.
std::string attrText(const Attr &a);
std::string floatText(double d);

// Bitwise equality: 0.0 differs from -0.0, because an op may tell them apart.
bool identical(const Attr &a, const Attr &b);

// Converts `a` to kind `want`: an integer (list) to a float (list), and an empty list to a list of
// either kind. Returns false if no conversion exists.
bool coerceAttr(Attr &a, AttrKind want);

// A small map from name to attribute, sorted by name: equal maps compare and print equal.
class Attrs {
public:
  using Item = std::pair<std::string, Attr>;

  Attrs() = default;
  Attrs(std::initializer_list<Item> items) {
    for (const Item &i : items)
      set(i.first, i.second);
  }

  const Attr *find(llvm::StringRef name) const;
  void set(llvm::StringRef name, Attr value);
  bool erase(llvm::StringRef name); // returns whether `name` was set

  // The attribute must be set and of kind T; the row's attribute list guarantees both.
  template <typename T> const T &get(llvm::StringRef name) const {
    const Attr *a = find(name);
    if (!a)
      missing(name);
    return std::get<T>(*a);
  }
  bool getBool(llvm::StringRef n) const { return get<bool>(n); }
  int64_t getInt(llvm::StringRef n) const { return get<int64_t>(n); }
  double getFloat(llvm::StringRef n) const { return get<double>(n); }
  const std::string &getString(llvm::StringRef n) const { return get<std::string>(n); }
  const Ints &getInts(llvm::StringRef n) const { return get<Ints>(n); }

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }

  friend bool operator==(const Attrs &a, const Attrs &b) { return a.items_ == b.items_; }
  friend bool operator!=(const Attrs &a, const Attrs &b) { return !(a == b); }

private:
  [[noreturn]] static void missing(llvm::StringRef name);
  std::vector<Item> items_; // on the heap: most nodes have no attributes, and Node stays small
};

bool identical(const Attrs &a, const Attrs &b);

} // namespace isthmus

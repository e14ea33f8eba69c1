#include "ir/attr.h"

#include "ir/check.h"
#include "ir/spelling.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <charconv>
#include <cmath>

namespace isthmus {
namespace {

bool isBareString(llvm::StringRef s) {
  return isWord(s) && s != "true" && s != "false" && s != "inf" && s != "nan";
}

bool sameBits(double a, double b) { return llvm::DoubleToBits(a) == llvm::DoubleToBits(b); }

template <typename List, typename Print> std::string listText(const List &l, Print print) {
  std::string s = "[";
  for (size_t i = 0; i < l.size(); ++i)
    s += (i ? ", " : "") + print(l[i]);
  return s + "]";
}

} // namespace

llvm::StringRef attrKindName(AttrKind k) {
  static constexpr llvm::StringRef names[] = {"bool",   "int",      "float",
                                              "string", "int list", "float list"};
  return names[static_cast<size_t>(k)];
}

std::string floatText(double d) {
  if (std::isnan(d))
    return "nan";
  if (std::isinf(d))
    return d < 0 ? "-inf" : "inf";
  char buf[40];
  auto r = std::to_chars(buf, buf + sizeof buf, d);
  std::string s(buf, r.ptr);
  if (s.find_first_of(".e") == std::string::npos)
    s += ".0";
  return s;
}

std::string attrText(const Attr &a) {
  auto ofInt = [](int64_t i) { return std::to_string(i); };
  switch (kindOf(a)) {
  case AttrKind::Bool:
    return std::get<bool>(a) ? "true" : "false";
  case AttrKind::Int:
    return ofInt(std::get<int64_t>(a));
  case AttrKind::Float:
    return floatText(std::get<double>(a));
  case AttrKind::String: {
    const std::string &s = std::get<std::string>(a);
    return isBareString(s) ? s : quoted(s);
  }
  case AttrKind::IntList:
    return listText(std::get<Ints>(a), ofInt);
  case AttrKind::FloatList:
    return listText(std::get<Floats>(a), floatText);
  }
  ISTHMUS_UNREACHABLE("attribute kind");
}

bool identical(const Attr &a, const Attr &b) {
  if (kindOf(a) != kindOf(b))
    return false;
  if (kindOf(a) == AttrKind::Float)
    return sameBits(std::get<double>(a), std::get<double>(b));
  if (kindOf(a) == AttrKind::FloatList) {
    const Floats &x = std::get<Floats>(a), &y = std::get<Floats>(b);
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), sameBits);
  }
  return a == b;
}

bool coerceAttr(Attr &a, AttrKind want) {
  if (kindOf(a) == want)
    return true;
  if (want == AttrKind::Float && kindOf(a) == AttrKind::Int) {
    a = static_cast<double>(std::get<int64_t>(a));
    return true;
  }
  if (want == AttrKind::FloatList && kindOf(a) == AttrKind::IntList) {
    const Ints &ints = std::get<Ints>(a);
    a = Floats(ints.begin(), ints.end());
    return true;
  }
  return false;
}

const Attr *Attrs::find(llvm::StringRef name) const {
  for (const Item &i : items_)
    if (i.first == name)
      return &i.second;
  return nullptr;
}

void Attrs::set(llvm::StringRef name, Attr value) {
  auto *at = std::lower_bound(items_.data(), items_.data() + items_.size(), name,
                              [](const Item &i, llvm::StringRef n) { return i.first < n; });
  size_t index = at - items_.data();
  if (index < items_.size() && items_[index].first == name)
    items_[index].second = std::move(value);
  else
    items_.insert(items_.begin() + index, Item(name.str(), std::move(value)));
}

bool identical(const Attrs &a, const Attrs &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Attrs::Item &x, const Attrs::Item &y) {
                      return x.first == y.first && identical(x.second, y.second);
                    });
}

bool Attrs::erase(llvm::StringRef name) {
  for (size_t i = 0; i < items_.size(); ++i)
    if (items_[i].first == name) {
      items_.erase(items_.begin() + i);
      return true;
    }
  return false;
}

void Attrs::missing(llvm::StringRef name) {
  ISTHMUS_CHECK(false, "attribute '" + name.str() + "' is missing");
  __builtin_unreachable();
}

} // namespace isthmus

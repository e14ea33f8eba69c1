// The files of page/, which the build puts into the program.
#pragma once

namespace isthmus {

extern const char *const kPageHtml;   // page.html, with {{title}}, {{style}}, {{script}}, {{data}}
extern const char *const kPageStyle;  // style.css
extern const char *const kPageScript; // all .js files, in the order of the BUILD file

} // namespace isthmus

/* Tessera for C++17: owners that close themselves, operators, exceptions that name the caller's
 * line.
 *
 *   tessera::runtime rt("cpu:8");
 *   tessera::mesh mesh(rt, "x=2,y=4");
 *   tessera::scope s(rt);
 *   tessera::array x = s.put(data, { 8, 8 }, mesh.on("x,y"));
 *   double total = ((x * 2 + 1) / x.mean()).sum().value();
 *
 * runtime and scope own; mesh, array, frame, row and table are handles as in C and live as long as
 * what owns them (base.h). What fails throws tessera::error at the call that is wrong, with the
 * status, and the scope forgets it. Lines come from std::source_location, or before C++20 from the
 * compiler: an operator's from its right operand. `raw()` gives the handle for any call of the C
 * interface.
 *
 * Operations are functions of the name that they have in C without tsr_ (tessera::take), those of
 * one array that reduce it are members (x.sum({ 0 })), and what makes arrays is a member of the
 * scope. Where a call has many options they are C's struct of arguments, filled as far as needed;
 * the arrays that are arguments here are put in. */
#ifndef TESSERA_HPP
#define TESSERA_HPP

#include "tessera.h"
#include "tessera/array.hpp"
#include "tessera/dlpack.hpp"
#include "tessera/elementwise.hpp"
#include "tessera/frame.hpp"
#include "tessera/functions.hpp"
#include "tessera/indexing.hpp"
#include "tessera/loops.hpp"
#include "tessera/mapping.hpp"
#include "tessera/operations.hpp"
#include "tessera/products.hpp"
#include "tessera/random.hpp"
#include "tessera/scope.hpp"
#include "tessera/shape.hpp"
#include "tessera/sorting.hpp"
#include "tessera/sources.hpp"
#include "tessera/statistics.hpp"
#include "tessera/training.hpp"
#include "tessera/trees.hpp"
#include "tessera/windows.hpp"

#endif

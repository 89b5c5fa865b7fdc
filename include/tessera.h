/* Tessera: sharded arrays, data frames and data pipelines. This header includes the others. */
#ifndef TESSERA_H
#define TESSERA_H

#include "tessera/array.h"
#include "tessera/arrow.h"
#include "tessera/base.h"
#include "tessera/collectives.h"
#include "tessera/compile.h"
#include "tessera/control.h"
#include "tessera/dlpack.h"
#include "tessera/elementwise.h"
#include "tessera/frame.h"
#include "tessera/frame_tree.h"
#include "tessera/function.h"
#include "tessera/gradient.h"
#include "tessera/indexing.h"
#include "tessera/inspect.h"
#include "tessera/io.h"
#include "tessera/mapping.h"
#include "tessera/products.h"
#include "tessera/profile.h"
#include "tessera/random.h"
#include "tessera/read.h"
#include "tessera/scalar.h"
#include "tessera/shape.h"
#include "tessera/sorting.h"
#include "tessera/statistics.h"
#include "tessera/topology.h"
#include "tessera/train.h"
#include "tessera/tree.h"
#include "tessera/windows.h"

#endif

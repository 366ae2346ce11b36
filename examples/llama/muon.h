/* muon.h - Muon for the matrices of the layers: --optimizer muon. */
#ifndef LLAMA_MUON_H
#define LLAMA_MUON_H

#include "model.h"

/* 1 if it is asked for. */
int muon_is_used(const options *o);
/* Memory for the matrices that are orthogonalised together. */
void muon_open(model *m);
/* One step of all matrices of the layers; each rank updates the parameters that it keeps the
 * momentum of. */
void muon_step(model *m, double lr);

#endif

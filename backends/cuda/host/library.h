/* library.h - NVIDIA's own libraries, which no build of Tigon needs: found when they are first
 * wanted. */
#ifndef CUDA_LIBRARY_H
#define CUDA_LIBRARY_H

/* Opens the first of the files, a list that ends with NULL, that is found: as the system finds
 * libraries (or the program has loaded it already), in the folders of TIGON_CUDA_LIBRARIES, with
 * CUDA's toolkit, and in the packages of Python's NVIDIA wheels, as PyTorch installs them. NULL if
 * none is there. */
void *cuda_open_library(const char *const *files);

#endif

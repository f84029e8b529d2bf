// Package deflate decodes deflate streams (RFC 1951) held in memory into buffers of a known size, for the readers of HDF5
// and FITS.
//
// It promises that what it gives is what the stream says, that bad bytes give [ErrCorrupt] and no more, and that nothing is
// written outside the buffer it is given. Containers (zlib, gzip) and their checksums are its callers' matter.
package deflate

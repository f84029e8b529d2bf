// Package feed lends batches to one client process: it fills shared memory with the rows that the client asks for and
// says, over a socket, where they stand.
//
// It promises to the client: a slot of memory is written only while the client has not got it, or after the client has
// given it back; batches come in order; an error says what to do. It promises to the machine: no path, no name and no
// process outlives the client, however either side ends; memory stays within the budget given. It never interprets the
// client's bytes beyond bounded messages, and never reads a slot that it has lent.
//
// One control connection carries opening a dataset and attaching sessions. A session is a connection of its own with
// its own slots: one stream of batches, or single requests, at a time. Messages are described in protocol.go; the
// client in python/astropile is the other half.
package feed

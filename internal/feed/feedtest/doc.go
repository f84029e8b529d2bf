// Package feedtest makes up a dataset of every kind of column for tests of the feed and of its clients. It promises that every value is
// a function of its row, so a test can say what a batch must hold without a dataset on disk.
package feedtest

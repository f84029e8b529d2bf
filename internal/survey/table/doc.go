// Package table is what the readers of files whose rows are objects (FITS, Parquet, CSV, ECSV, JSONL) share with package
// survey: what a file offers, and its values as they stand there. What becomes of a value is the recipe's matter.
package table

package lint

// Module is the import path that the project's packages begin with.
const Module = "astropile"

// layers names the packages under internal from the lowest layer up. A package
// imports from lower layers only, and so never from its own; the subpackages of
// one package (survey/hdf5) belong to it, and a parent may import them.
var layers = []struct {
	packages []string
	holds    string
}{
	{[]string{"sky", "catalog", "order"}, "what things are, in memory"},
	{[]string{"shard", "trust", "site"}, "bytes of one file, keys, the machine"},
	{[]string{"survey", "query", "source"}, "where records and bytes come from"},
	{[]string{"release", "cache", "swarm", "hub"}, "what is published, kept and passed on"},
	{[]string{"stream", "mirror"}, "rows in order, whole datasets in step"},
	{[]string{"feed", "node", "plan", "report", "slurm"}, "what people and programs meet"},
}

// exceptions are packages that stand beside the layers.
var exceptions = map[string]struct {
	imports []string // packages under internal; those of the lowest layer besides
	reason  string
}{
	"bench": {
		[]string{"shard", "source", "stream", "site"},
		"it measures the layers that move bytes, one by one, and meets a node only over HTTP, as a client does",
	},
	"lint":    {nil, "it reads the source and needs none of it"},
	"testkit": {nil, "every package's own tests use it, and one that imported them would make a cycle"},
}

// pure packages compute in memory: the same arguments give the same result on
// every machine.
var pure = map[string]bool{"sky": true, "catalog": true, "order": true, "plan": true}

// impure are the standard packages, with all below them, that a pure package
// does not import, and why.
var impure = map[string]string{
	"os":            "files, the environment and processes belong to the caller",
	"net":           "bytes from the network are handed in by the caller",
	"syscall":       "what depends on the system belongs to higher layers",
	"plugin":        "no code is loaded at run time",
	"path/filepath": "names inside a dataset use slashes on every system: use path",
	"io/ioutil":     "files belong to the caller",
	"log":           "a pure function reports by what it returns",
	"crypto/rand":   "seeds are passed in, or a result could not be had again",
	"runtime/cgo":   "the program is static and builds for every machine",
	"C":             "the program is static and builds for every machine",
}

// pureModules are the only modules from elsewhere that pure packages import:
// they compute in memory.
var pureModules = []string{
	"github.com/apache/arrow-go/v18",
	"github.com/klauspost/compress",
	"github.com/zeebo/blake3",
	"github.com/zeebo/xxh3",
	"gopkg.in/yaml.v3",
}

// forbiddenCalls are functions that only package main calls, and why.
var forbiddenCalls = map[string]map[string]string{
	"os": {
		"Getenv":    "what the environment says arrives as an option",
		"LookupEnv": "what the environment says arrives as an option",
		"Environ":   "what the environment says arrives as an option",
		"ExpandEnv": "what the environment says arrives as an option",
		"Exit":      "an error is returned, and cmd turns it into an exit code",
	},
	"log": {
		"Fatal":   "an error is returned, and cmd turns it into an exit code",
		"Fatalf":  "an error is returned, and cmd turns it into an exit code",
		"Fatalln": "an error is returned, and cmd turns it into an exit code",
	},
}

package survey

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Input is one survey file.
type Input struct {
	Path    string // where to open it
	Rel     string // its name within the sources, with slashes; unique, and the same on every machine
	Bytes   int64
	Split   string // published split its name or a folder tells: train, val or test; else empty
	Healpix int64  // number in a folder healpix=N (order 4, NESTED, as published); -1 where there is none
	Link    string // where a symbolic link leads, as it is written; else empty

	known *known // what looks into it found; may be nil
}

var (
	splitName   = regexp.MustCompile(`^(?i)(train|val|valid|validation|test)(?:[_.-].*)?$`)
	healpixName = regexp.MustCompile(`^(?i)healpix=([0-9]{1,18})$`)
)

// Discover lists the survey files of the sources, each a file or a folder. Folders are walked in the order of names;
// names that start with a dot are passed over, and so are files of other endings. A link to a file is followed; a link
// to a folder inside a folder is refused by name, because it may lead in a circle: give it as a source of its own.
//
// Of published catalogues (HATS collections and catalogues, datasets of our own) only the data of the primary catalogue
// are inputs: margins, indexes, maps and documents are passed over.
//
// Rel is the path below the folder, or the name of the file; with several sources the name of a folder stands before it.
// Two inputs of one Rel are an error that names both. Errors wrap ErrInput or come from the file system.
func Discover(sources []string) ([]Input, error) {
	in, _, err := DiscoverAll(sources)
	return in, err
}

// DiscoverAll is Discover, with a warning for what was passed over and could have been taken for data.
func DiscoverAll(sources []string) ([]Input, []Warning, error) {
	in, passed, err := discover(sources)
	if err != nil || len(passed) == 0 {
		return in, nil, err
	}
	more := ""
	if len(passed) > maxProblemText {
		passed, more = passed[:maxProblemText], fmt.Sprintf(" and %d more", len(passed)-maxProblemText)
	}
	return in, []Warning{{Code: WarnPassed, Text: "passed over, as no part of the primary catalogue: " + strings.Join(passed, ", ") + more}}, nil
}

func discover(sources []string) ([]Input, []string, error) {
	var out []Input
	var passed []string
	for _, src := range sources {
		st, err := os.Stat(src)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrInput, err)
		}
		if !st.IsDir() {
			if !readable(src) {
				return nil, nil, fmt.Errorf("%w: %s: files that are read end in %s", ErrInput, src, endingsText())
			}
			in, err := input(src, filepath.Base(src))
			if err != nil {
				return nil, nil, err
			}
			out = append(out, in)
			continue
		}
		prefix := ""
		if len(sources) > 1 {
			abs, err := filepath.Abs(src)
			if err != nil {
				return nil, nil, err
			}
			prefix = filepath.Base(abs)
		}
		found, over, err := walk(src, prefix)
		if err != nil {
			return nil, nil, err
		}
		if len(found) == 0 {
			return nil, nil, fmt.Errorf("%w: %s: no file in it ends in %s", ErrInput, src, endingsText())
		}
		out, passed = append(out, found...), append(passed, over...)
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("%w: no sources given", ErrInput)
	}
	byRel := map[string]string{}
	for _, in := range out {
		if other, ok := byRel[in.Rel]; ok {
			return nil, nil, fmt.Errorf("%w: %s and %s would both be called %q; give the folder above them, once", ErrInput, other, in.Path, in.Rel)
		}
		byRel[in.Rel] = in.Path
	}
	return out, passed, nil
}

func readable(name string) bool { return named(name) != "" }

func walk(root, prefix string) (out []Input, passed []string, err error) {
	only := map[string]string{} // of a published folder, the one sub-folder that holds its data
	// The trailing separator makes a root that is itself a link be followed.
	err = filepath.WalkDir(root+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if sub := only[filepath.Dir(rel)]; rel != "." && sub != "" && d.Name() != sub {
			if d.IsDir() {
				passed = append(passed, filepath.Join(prefix, rel))
				return fs.SkipDir
			}
			if readable(d.Name()) {
				passed = append(passed, filepath.Join(prefix, rel))
			}
			return nil
		}
		if d.IsDir() {
			sub, auxiliary := dataIn(path)
			if auxiliary && rel != "." {
				passed = append(passed, filepath.Join(prefix, rel))
				return fs.SkipDir
			}
			only[rel] = sub
		}
		if rel == "." {
			return nil
		}
		if strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			st, err := os.Stat(path)
			if err != nil {
				return fmt.Errorf("%w: symbolic link %s leads nowhere: %w", ErrInput, path, err)
			}
			if st.IsDir() {
				return fmt.Errorf("%w: %s is a symbolic link to a folder; give the folder as a source of its own", ErrInput, path)
			}
		}
		if d.IsDir() || !readable(d.Name()) {
			return nil
		}
		in, err := input(path, filepath.Join(prefix, rel))
		if err == nil {
			out = append(out, in)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return out, passed, nil
}

func input(path, rel string) (Input, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Input{}, fmt.Errorf("%w: %w", ErrInput, err)
	}
	if !st.Mode().IsRegular() {
		return Input{}, fmt.Errorf("%w: %s is not a regular file", ErrInput, path)
	}
	in := Input{Path: path, Rel: filepath.ToSlash(rel), Bytes: st.Size(), Healpix: -1, known: &known{}}
	if link, err := os.Readlink(path); err == nil {
		in.Link = link
	}
	where := in.Rel
	if filepath.Base(path) == in.Rel {
		// A file given by itself still stands in the folder that says where it belongs.
		abs, err := filepath.Abs(path)
		if err != nil {
			return Input{}, err
		}
		where = filepath.Base(filepath.Dir(abs)) + "/" + in.Rel
	}
	in.Split, in.Healpix = readPath(where)
	return in, nil
}

// readPath reads the published split and the number of the healpix folder off a path with slashes. The name nearest to
// the file wins. Numbers are parsed, because published folders are zero-padded at times.
func readPath(rel string) (split string, healpix int64) {
	healpix = -1
	parts := strings.Split(rel, "/")
	parts[len(parts)-1] = strings.TrimSuffix(parts[len(parts)-1], filepath.Ext(parts[len(parts)-1]))
	for i, p := range parts {
		if m := healpixName.FindStringSubmatch(p); m != nil && i < len(parts)-1 {
			if n, err := strconv.ParseInt(m[1], 10, 64); err == nil {
				healpix = n
			}
		}
		m := splitName.FindStringSubmatch(p)
		if m == nil || i < len(parts)-1 && len(m[1]) != len(p) {
			continue
		}
		split = strings.ToLower(m[1])
		if strings.HasPrefix(split, "val") {
			split = "val"
		}
	}
	return split, healpix
}
